"""The Python processes that a script starts: counts them by the line that starts them.

`subprocess.Popen`, by which `subprocess.run` and `call` start theirs, and `Process.start` of
multiprocessing, by which its pools, concurrent.futures and joblib start theirs. Forks are left out:
they are monitored, as they inherit what monitors this process.

Under `run --follow`, all inherit two environment variables. Each that loads Keras then writes its
records to a folder of its own in the run's folder. The script's process reports on all of them.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.scripts.conclusion import Conclusion
from keras_gpukit.scripts.custom_loop import OwnLoops
from keras_gpukit.scripts.import_hook import ImportHook, OnImports, followed_by
from keras_gpukit.scripts.main_module import PACKAGE
from keras_gpukit.scripts.run_folder import FOLLOWED, RunFolder
from keras_gpukit.scripts.termination import Termination
from keras_gpukit.scripts.watched_fits import WatchedFits
from keras_gpukit.sensors.stacks import outwards

_PYTHON = re.compile(r"(?:^|[\s/\\])python[\d.]*(?:\.exe)?(?=\s|$)|^\S+\.py\b", re.IGNORECASE)
_FORK = "fork"
_PATH = "PYTHONPATH"
_INHERITED = str(Path(__file__).with_name("inherited"))


class StartedProcesses:
    """Counts starts of Python processes by this process.

    Attributes:
        counts: Number of starts by the function and the line of the script that calls it, such as
            "subprocess.run (sweep.py:14)".
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._guard = Guard("Counting started processes", "The count is incomplete.")

    def install(self) -> None:
        """Starts to count, for good."""
        import subprocess

        # Not imported here: it would take our `__main__` for the script's.
        ImportHook({"multiprocessing.process": self._count_of_multiprocessing}).install()
        popen = subprocess.Popen
        self._count(popen, "__init__", lambda _, command: is_python(command), "subprocess.Popen")
        self._count(os, "system", lambda command, _: is_python(command), "os.system")

    def sentence(self, *, follows: bool) -> str | None:
        """Returns a sentence on the processes that the script has started; None without any."""
        if not self.counts:
            return None
        count, [(most, _)] = self.counts.total(), self.counts.most_common(1)
        were = "Python process was" if count == 1 else "Python processes were"
        others = " and others" if len(self.counts) > 1 else ""
        advice = "" if follows else f"; use --follow to monitor {'it' if count == 1 else 'them'}"
        return f"{count:,} {were} started by {most}{others}{advice}."

    def _count_of_multiprocessing(self) -> None:
        from multiprocessing.process import BaseProcess

        def started(process: Any, _: Any) -> bool:
            return getattr(process._popen, "method", None) != _FORK

        self._count(BaseProcess, "start", started, "Process.start")

    def _count(
        self, owner: Any, name: str, counts: Callable[[Any, Any], bool], called: str
    ) -> None:
        def count(_: None, process: Any, *arguments: Any, **named: Any) -> None:
            with self._guard:
                if counts(process, named.get("args", arguments[0] if arguments else ())):
                    caller = started_by(sys._getframe(2), called)
                    if caller is not None:
                        self.counts[caller] += 1

        setattr(owner, name, followed_by(getattr(owner, name), lambda: None, count))


def is_python(command: Any) -> bool:
    """Whether a command, as `subprocess.Popen` takes it, starts Python."""
    words = (command,) if isinstance(command, str | bytes | os.PathLike) else command
    return bool(_PYTHON.search(" ".join(map(os.fsdecode, words))))


def started_by(frame: FrameType, called: str) -> str | None:
    """Returns the script's line on the stack, and what it calls; None if this package does it."""
    for outer in outwards(frame):
        file = outer.f_code.co_filename
        if file.startswith(PACKAGE + os.sep):
            break
        if is_of_the_script(file):
            return f"{called} ({place(file, outer.f_lineno)})"
        called = _name(outer)
    return None


def _name(frame: FrameType) -> str:
    """Returns the name of a frame's function, such as "subprocess.run"."""
    function, owner = frame.f_code.co_name, frame.f_locals.get("self")
    if function in ("__init__", "__call__") and owner is not None:
        function = type(owner).__name__
    return f"{str(frame.f_globals.get('__name__')).partition('.')[0]}.{function}"


def have_followed(
    folder: Path, *, profile: bool, log_to: Sequence[str], gpu_settings: dict[str, Any]
) -> None:
    """Sets the environment variables by which processes started from now on are monitored."""
    options = {"profile": profile, "log_to": log_to, "gpu_settings": gpu_settings}
    os.environ[FOLLOWED] = json.dumps({"folder": str(folder), **options})
    before = os.environ.get(_PATH)
    os.environ[_PATH] = f"{_INHERITED}{os.pathsep}{before}" if before else _INHERITED


def follow() -> OnImports | None:
    """Starts to monitor this process, as those variables say; returns the hook on its imports."""
    text = os.environ.get(FOLLOWED)
    if text is None:  # this is `keras-gpukit run` itself, which monitors on its own
        return None
    options = json.loads(text)
    gpu_settings = {  # JSON has no tuples
        name: tuple(value) if name == "gpu_threads" and isinstance(value, list) else value
        for name, value in options["gpu_settings"].items()
    }
    folder = RunFolder(
        Path(options["folder"]), Path(sys.argv[0]).stem, shared=Path(options["folder"])
    )

    def finish() -> None:
        from keras_gpukit.monitoring.session import end_all

        end_all("SIGTERM")

    loops = OwnLoops()
    fits = WatchedFits(
        folder,
        profile=options["profile"],
        log_to=options["log_to"],
        before_fit=Termination(finish).install,
    )
    on_imports = OnImports(fits, loops, gpu_settings)
    conclusion = Conclusion(fits, folder, opens=False, loops=loops)
    atexit.register(conclusion.record_own_loop)
    on_imports.install()
    return on_imports
