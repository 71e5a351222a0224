"""What all tests share."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from importlib.abc import MetaPathFinder
from pathlib import Path

# Before TensorFlow is loaded: its own log is not what the tests are about.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ["COLUMNS"] = "80"  # however wide the terminal is in which the tests run

import pytest
from helpers import prepared
from helpers.processes import environment

# A shell that starts the tests in the background has interrupts ignored, `nohup` the hangup.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

REALTIME = Path(__file__).parent / "realtime"
WANTED = re.compile(r"apt-get install|needs root")


def pytest_addoption(parser):
    parser.addoption(
        "--no-tensorflow",
        action="store_true",
        help="leave out files that import TensorFlow or Keras, and fail other tests that do",
    )


def pytest_configure(config):
    os.environ.setdefault(prepared.RUN, str(os.getpid()))
    # While tests are collected: each full collection of garbage looks at all of TensorFlow, and
    # Keras imports scikit-learn where it is installed, which takes a second of a core.
    gc.disable()
    sys.modules.setdefault("sklearn", None)
    if config.getoption("--no-tensorflow"):
        sys.meta_path.insert(0, NoTensorFlow())


def pytest_unconfigure():
    if os.environ[prepared.RUN] == str(os.getpid()):
        shutil.rmtree(prepared.sockets(), ignore_errors=True)


def pytest_collection_modifyitems(items):
    """Slow files first, so that nothing waits for one at the end; those of real time last.

    Before them those that wait for a browser or for Slurm most of their time.
    """
    tests = Counter(item.path for item in items)
    marks = ("browser", "slurm"), ("slow",)
    wait, slow = (
        {item.path for item in items if any(map(item.get_closest_marker, names))} for names in marks
    )

    def order(item):
        path = item.path
        return REALTIME in path.parents, path not in wait, path not in slow, -tests[path]

    items.sort(key=order)


def pytest_collection_finish():
    gc.enable()
    if sys.modules.get("sklearn") is None:
        sys.modules.pop("sklearn", None)
    NoTensorFlow.collecting = False


def pytest_sessionfinish(session):
    if session.config.getoption("--no-tensorflow"):
        assert not {"tensorflow", "keras"} & sys.modules.keys()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter):
    """Says last what was not tested for want of a program, and how to get it."""
    yield
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = [str(each.longrepr[2]).removeprefix("Skipped: ") for each in skipped]
    wanted = Counter(each for each in reasons if WANTED.search(each))
    if wanted:
        terminalreporter.section("not tested here")
    for reason, count in wanted.items():
        terminalreporter.line(f"{count} test{'s' * (count > 1)}: {reason}")


class NoTensorFlow(MetaPathFinder):
    """Refuses to import TensorFlow and Keras, so that the test that tries to is the one to fail.

    A file that imports them at its top is left out.
    """

    collecting = True

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"tensorflow", "keras"}:
            if NoTensorFlow.collecting:
                pytest.skip(f"imports {name}", allow_module_level=True)
            raise ModuleNotFoundError(f"{name} is not to be imported here", name=name)
        return


@pytest.fixture(scope="module", autouse=True)
def _what_is_left_of_others_is_not_looked_at_again():
    gc.collect()
    gc.freeze()  # TensorFlow's objects take each full collection tenths of a second


@pytest.fixture
def undisturbed():
    """For tests that time steps: Python frees nothing meanwhile.

    To look for what it could free takes it tenths of a second, and to free a pipeline as long as
    that lived: a step in which that happens is no longer as slow as its test made it.
    """
    gc.collect()
    gc.freeze()  # so that the next of them looks only at what came since
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_run():
    yield
    deadline = time.monotonic() + 60  # a run that was interrupted is noticed within a second or two
    while (left := _own_threads()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def _own_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gpukit")]


@pytest.fixture
def run_script(tmp_path):
    """Runs Python source in a process of its own, since device settings freeze."""

    def run(source: str, *, timeout: float = 120, **variables: str):
        script = tmp_path / "script.py"
        script.write_text(source)
        return prepared.run(script, env=environment(**variables), timeout=timeout)

    return run


@pytest.fixture
def run_python(tmp_path):
    """Runs Python source in a new interpreter, for what TensorFlow reads on import."""

    def run(source: str, *, timeout: float = 120, check: bool = True, **variables: str):
        script = tmp_path / "script.py"
        script.write_text(source)
        finished = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment(**variables),
            check=False,
        )
        if check:
            assert finished.returncode == 0, finished.stderr[-3000:]
        return finished

    return run
