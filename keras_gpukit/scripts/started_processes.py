"""Counts the Python processes that a script starts, by the line that starts them.

`subprocess.Popen`, by which `subprocess.run` and `call` start theirs, and `Process.start` of
multiprocessing, by which its pools, concurrent.futures and joblib start theirs. Forks are left out:
they are monitored, as they inherit what monitors this process.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.scripts.around import followed_by
from keras_gpukit.scripts.import_hook import ImportHook
from keras_gpukit.scripts.main_module import PACKAGE

_PYTHON = re.compile(r"(?:^|[\s/\\])python[\d.]*(?:\.exe)?(?=\s|$)|^\S+\.py\b", re.IGNORECASE)
_FORK = "fork"


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

        def popen(process: Any, arguments: Any) -> bool:
            return process.pid is not None and is_python(arguments)

        def command(line: Any, _: Any) -> bool:
            return is_python(line)

        # Not imported here: it would take our `__main__` for the script's.
        ImportHook({"multiprocessing.process": self._count_of_multiprocessing}).install()
        self._count(subprocess.Popen, "__init__", popen, "subprocess.Popen")
        self._count(os, "system", command, "os.system")

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


def started_by(frame: FrameType | None, called: str) -> str | None:
    """Returns the script's line on the stack, and what it calls; None if this package does it.

    Args:
        frame: The frame that calls a function.
        called: The name of that function.
    """
    from keras_gpukit.input.pipelines.places import place
    from keras_gpukit.monitoring.script_globals import is_of_the_script

    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE + os.sep):
            break
        if is_of_the_script(file):
            line = place(file, frame.f_lineno)
            return f"{called} ({line})"
        called, frame = _name(frame), frame.f_back
    return None


def _name(frame: FrameType) -> str:
    """Returns the name of a frame's function, such as "subprocess.run"."""
    function, owner = frame.f_code.co_name, frame.f_locals.get("self")
    if function in ("__init__", "__call__") and owner is not None:
        function = type(owner).__name__
    return f"{str(frame.f_globals.get('__name__')).partition('.')[0]}.{function}"


def in_words(counts: Mapping[str, int], *, follows: bool) -> str | None:
    """Returns a sentence on the processes that a script has started; None without any."""
    if not counts:
        return None
    count, (most, _) = sum(counts.values()), max(counts.items(), key=lambda each: each[1])
    were = "Python process was" if count == 1 else "Python processes were"
    others = " and others" if len(counts) > 1 else ""
    advice = "" if follows else f"; use --follow to monitor {'it' if count == 1 else 'them'}"
    return f"{count:,} {were} started by {most}{others}{advice}."
