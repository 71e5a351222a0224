"""Commands on native Windows: in a process without the names that Python does not have there."""

import json
import subprocess
import sys

import pytest

WITHOUT_ITS_NAMES = """
import contextlib, io, json, os, signal, sys
sys.platform = "win32"
for module in ("fcntl", "resource"):
    sys.modules[module] = None
for name in ("SIGBUS", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2"):
    delattr(signal, name)
for name in ("O_CLOEXEC", "fork", "getpgid", "killpg", "register_at_fork", "setsid"):
    delattr(os, name)
from keras_gpukit.cli.main import main
ends = []
for line in sys.argv[1:]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            code = main(line.split())
        except BaseException as error:
            code = repr(error)
    ends.append((code, said.getvalue()))
print(json.dumps(ends))
"""
NEED_LINUX = (
    "tune train.py",
    "batch-size train.py",
    "launch --workers 2 train.py",
    "input-service",
)
WORK = (
    "launch --workers 2 --slurm train.py",
    "launch --workers 2 --kubernetes --gpus-per-worker 0 --image train:1 train.py",
    "input-service --kubernetes --image train:1",
)


@pytest.fixture(scope="module")
def ends():
    command = [sys.executable, "-c", WITHOUT_ITS_NAMES, *NEED_LINUX, *WORK]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return dict(zip((*NEED_LINUX, *WORK), json.loads(result.stdout), strict=True))


@pytest.mark.parametrize("line", NEED_LINUX)
def test_a_command_that_needs_linux_says_so_and_where_it_works(ends, line):
    code, said = ends[line]
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"keras-gpukit {line.split()[0]}: This needs Linux or macOS.")
    assert "WSL2" in said
    assert "none since 2.11" in said


@pytest.mark.parametrize("line", WORK)
def test_what_is_for_another_machine_is_printed(ends, line):
    code, printed = ends[line]
    assert code == 0, printed
    assert printed.startswith(("#!", "#", "apiVersion"))
