"""Finds which of several failed processes caused the failure, and describes it."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from keras_gpukit.distributed.launching.job import Task
from keras_gpukit.distributed.launching.lines import Tail, Traceback

TIMED_OUT = 124
"""Exit code of a job whose processes did not all join; the command `timeout` uses it, too."""
ALONE = (
    "No process has made a multi-worker strategy, so nothing connects them: if the script trains, "
    "each process trains the whole model on its own. Let the script call "
    'configure_gpus(strategy="auto"), or leave it as it is: keras-gpukit launch --workers N '
    "-m keras_gpukit run --strategy auto SCRIPT"
)
"""Message if no server of TensorFlow has started, neither in time nor until the end."""
_LINES_SHOWN = 10
# Signs of a lost peer in messages of TensorFlow's collectives, gRPC and this package's WorkerError.
_CONSEQUENCE = re.compile(
    rb"\b(UnavailableError|AbortedError|CancelledError|DeadlineExceededError)\b|heartbeat|"
    rb"Connection reset|Socket closed|Broken pipe|WorkerError: Lost contact with"
)


@dataclass(frozen=True)
class Ending:
    """How a process ended, or that it did not join the others.

    Attributes:
        task: Task of the process.
        returncode: Exit code, negative number of the signal that killed the process, or None if it
            still runs.
        at_s: Time at which this was noticed, on the clock `time.monotonic`.
        tail: The last lines that the process printed.
        missing_s: Time limit, in seconds, within which the process did not join the others; None
            for any other failure.
    """

    task: Task
    returncode: int | None
    at_s: float
    tail: Tail
    missing_s: float | None = None

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


def first_failure(endings: Sequence[Ending]) -> Ending:
    """Returns the process that failed first; one that failed by itself takes precedence."""
    return min(endings, key=lambda each: (each.is_consequence, each.began_s))


def last_words(failure: Ending) -> tuple[bytes, ...]:
    """Returns the last output of a failed process: its traceback, or else its last lines."""
    traceback = failure.traceback
    return failure.tail.last(_LINES_SHOWN) if traceback is None else traceback.lines


def describe(failure: Ending, others: Sequence[Ending]) -> str:
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
