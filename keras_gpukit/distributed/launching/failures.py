"""Finds which of several failed processes caused the failure, and describes it."""

from __future__ import annotations

import re
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from keras_gpukit.distributed.launching.job import Task

TIMED_OUT = 124
"""Exit code of a job whose processes did not all join; the command `timeout` uses it, too."""
ALONE = (
    "No process has made a multi-worker strategy, so nothing connects them: if the script trains, "
    "each process trains the whole model on its own. Let the script call "
    'configure_gpus(strategy="auto"), or leave it as it is: keras-gpukit launch --workers N '
    "-m keras_gpukit run --strategy auto SCRIPT"
)
"""Message if no server of TensorFlow has started, neither in time nor until the end."""
_KEPT = 1000
_LINES_SHOWN = 10
_BEGINS = b"Traceback (most recent call last):"
_CHAINED = {
    b"During handling of the above exception, another exception occurred:",
    b"The above exception was the direct cause of the following exception:",
}
_LOGGED = re.compile(
    rb"([IWEF])\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: ([IWEF]) |WARNING: All log messages "
)
"""Beginning of a line in TensorFlow's own log."""
# Signs of a lost peer in messages of TensorFlow's collectives, gRPC and this package's WorkerError.
_CONSEQUENCE = re.compile(
    rb"\b(UnavailableError|AbortedError|CancelledError|DeadlineExceededError)\b|heartbeat|"
    rb"Connection reset|Socket closed|Broken pipe|WorkerError: Lost contact with"
)


def is_chatter(line: bytes) -> bool:
    """Whether a line is from TensorFlow's log and does not report an error."""
    logged = _LOGGED.match(line)
    return logged is not None and not {b"E", b"F"} & {*logged.groups()}


@dataclass(frozen=True)
class Traceback:
    """An exception that Python printed."""

    lines: tuple[bytes, ...]
    at_s: float

    @property
    def exception(self) -> bytes:
        """The line that names the exception, which is the first one after the frames."""
        after = len(self.lines) - self.lines[::-1].index(_BEGINS)
        names = (line for line in self.lines[after:] if line and not line.startswith((b" ", b"|")))
        return next(names, b"")


class Tail:
    """Keeps the last lines of a process."""

    def __init__(self) -> None:
        self._lines: deque[tuple[float, bytes, bool]] = deque(maxlen=_KEPT)

    def add_line(self, line: bytes, at_s: float, *, is_error: bool) -> None:
        """Adds a line."""
        self._lines.append((at_s, line, is_error))

    def last(self, count: int) -> tuple[bytes, ...]:
        """Returns the last lines, without lines of TensorFlow's log that report no error."""
        return tuple(line for _, line, _ in self._lines if not is_chatter(line))[-count:]

    def traceback(self) -> Traceback | None:
        """Returns the traceback that was printed last, without TensorFlow's log lines in it."""
        kept = [
            (at_s, line)
            for at_s, line, is_error in self._lines
            if is_error and not _LOGGED.match(line)
        ]
        begins = [number for number, (_, line) in enumerate(kept) if line == _BEGINS]
        if not begins:
            return None
        first = begins.pop()
        while begins and not _CHAINED.isdisjoint(line for _, line in kept[begins[-1] : first]):
            first = begins.pop()
        lines = [line for _, line in kept[first:]]
        while not lines[-1]:
            lines.pop()
        return Traceback(tuple(lines), kept[first][0])


@dataclass(frozen=True)
class Ending:
    """How a process ended, or that it did not join the others."""

    task: Task
    returncode: int | None
    """Exit code, or negative number of the signal that killed the process; None if it still runs"""
    at_s: float
    """Time at which this was noticed, on the clock `time.monotonic`."""
    tail: Tail
    missing_s: float | None = None
    """Time limit within which the process did not join the others; None for any other failure."""

    @property
    def traceback(self) -> Traceback | None:
        """Traceback of the exception that ended the process; None if there was no exception."""
        was_killed = self.returncode is not None and self.returncode < 0
        return None if was_killed or self.missing_s is not None else self.tail.traceback()

    @property
    def is_consequence(self) -> bool:
        """Whether the process ended by an error that is raised if another process is gone."""
        traceback = self.traceback
        return traceback is not None and bool(_CONSEQUENCE.search(traceback.exception))

    @property
    def exit_code(self) -> int:
        """Exit code that a shell would show; 124 if the process did not join the others."""
        if self.missing_s is not None:
            return TIMED_OUT
        if self.returncode is None:
            return 1  # an exception was printed, and the process hangs while it ends
        return self.returncode if self.returncode >= 0 else 128 - self.returncode

    @property
    def began_s(self) -> float:
        """Time at which the end started: a process may hang between an exception and its exit."""
        traceback = self.traceback
        return self.at_s if traceback is None else min(self.at_s, traceback.at_s)

    @property
    def last_words(self) -> tuple[bytes, ...]:
        """The last output of the process: its traceback, or else its last lines."""
        traceback = self.traceback
        return self.tail.last(_LINES_SHOWN) if traceback is None else traceback.lines


def first_failure(endings: Sequence[Ending]) -> Ending:
    """Returns the process that failed first; one that failed by itself takes precedence."""
    return min(endings, key=lambda ending: (ending.is_consequence, ending.began_s))


def describe(failure: Ending, others: Sequence[Ending] = ()) -> str:
    """Returns a sentence on a failure, and one on each of the other failures that followed."""
    text = f"{failure.task.name} {_how(failure)}."
    for other in others:
        traceback = other.traceback
        by = "" if traceback is None else f" ({traceback.exception[:100].decode(errors='replace')})"
        text += f" {other.task.name} failed after it{by}."
    return text


def _how(failure: Ending) -> str:
    code = failure.returncode
    if failure.missing_s is not None:
        state = "it is running" if code is None else f"it has ended with exit code {code}"
        return (
            f"did not join the others within {failure.missing_s:g} s: {state}, and no server of "
            "TensorFlow has started in it. Every worker must make the strategy, as "
            'configure_gpus(strategy="auto") does'
        )
    if code is None:
        return "raised an exception and did not end"
    if code >= 0:
        return f"ended with exit code {code}"
    known = {number.value: number.name for number in signal.Signals}
    name = known.get(-code, f"signal {-code}")
    hint = ", as by the kernel when memory runs out" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
