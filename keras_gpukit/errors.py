"""Errors, warnings and the logger of keras_gpukit, and a guard that keeps failures from `fit`.

Wrong arguments raise the built-in `ValueError` and `TypeError`. The errors here are for problems
that no check of arguments can find.
"""

from __future__ import annotations

import logging
import sys


class GPUKitError(Exception):
    """Base class of all errors of keras_gpukit."""


class NoGPUError(GPUKitError):
    """A GPU was required and none can be used; the message says why."""


class AlreadyInitializedError(GPUKitError, RuntimeError):
    """TensorFlow has started its devices, so a setting that must come first cannot be applied."""


class ClusterError(GPUKitError):
    """The environment describes a cluster wrongly or in part; the message names the variable."""


class WorkerError(GPUKitError, RuntimeError):
    """A process of the cluster did not join, or was lost during training; the message names it."""


class TrialError(GPUKitError, RuntimeError):
    """A trial in a separate process failed, not for lack of memory; the message has its report."""


class ProfileError(GPUKitError):
    """A file cannot be read as a profile; the message says why, and what to do."""


class GPUKitWarning(UserWarning):
    """Something that the user should know was resolved or given up; training goes on."""


logger = logging.getLogger("keras_gpukit")
"""Logger for failures in monitoring a run. They are not raised, since that would end training."""

NOT_ON_WINDOWS = (
    "This needs Linux or macOS. On Windows, run it in WSL2, where TensorFlow also has GPUs; for "
    "native Windows, TensorFlow has had none since 2.11."
)
"""Reason that a part does not work on native Windows, and what does."""

MOST_CHARACTERS = 100
"""Length of a reason that people read; our choice, a line and a half of the panel."""


def one_line(text: str, most: int = MOST_CHARACTERS) -> str:
    """Returns the first line of a text, cut to a number of characters."""
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def failure(part: str, error: BaseException) -> str:
    """Returns the reason that a part failed, without a message that is long or has several lines.

    Args:
        part: Part that failed, as the subject of the sentence.
        error: The exception. Frameworks write dozens of lines, which are for the log.
    """
    failed = f"{part[:1].lower()}{part[1:]} failed"
    whole = f"{failed} ({type(error).__name__}: {error})"
    return whole if whole == one_line(whole) else one_line(f"{failed} ({type(error).__name__})")


def give_up(what: str, error: BaseException, consequence: str) -> None:
    """Logs that a part of the monitoring failed, and what the consequence is."""
    logger.warning(
        "keras_gpukit: %s failed (%s: %s). %s Training continues unchanged.",
        what,
        type(error).__name__,
        error,
        consequence,
    )


class Guard:
    """Context manager around a part of the monitoring: stops exceptions, and logs the first one.

    Only `Exception` is caught: Ctrl-C passes through.

    ```python
    guard = Guard("Reading the host", "It is not read again in this run.")
    with guard:
        sensor.read()
    if guard.failed_because: ...
    ```

    Args:
        part: Part that may fail, as the subject of the warning.
        consequence: Sentence that says what the failure leads to.

    Attributes:
        failed_because: Description of the first failure; None without one. The exception itself is
            not kept: it would keep alive the frames it passed through, and with them the run's
            data.
        logs: Whether to log a failure.
    """

    def __init__(self, part: str, consequence: str) -> None:
        self.failed_because: str | None = None
        self.logs = True
        self._part = part
        self._consequence = consequence

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception):
            return False
        if self.failed_because is None:
            self.failed_because = failure(self._part, error)
            if self.logs:
                give_up(self._part, error, self._consequence)
        return True


def add_note(error: BaseException, note: str) -> None:
    """Adds a note to an exception that is then raised again.

    Python 3.10 has no notes. There, the attribute for notes is set for tools that read it, and the
    note is printed on standard error, since tracebacks leave it out.
    """
    if sys.version_info >= (3, 11):
        error.add_note(note)
        return
    notes = getattr(error, "__notes__", [])
    error.__notes__ = [*notes, note]  # type: ignore[attr-defined]
    print(note, file=sys.stderr)
