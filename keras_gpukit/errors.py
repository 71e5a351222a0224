"""Errors, warnings and the logger that are keras_gpukit's own, and what keeps failures from `fit`.

Wrong arguments raise the built-in `ValueError` and `TypeError`; these are for what no argument
check can see.
"""

from __future__ import annotations

import logging
import sys


class GPUKitError(Exception):
    """Base of every error that is keras_gpukit's own."""


class NoGPUError(GPUKitError):
    """A GPU was required and none can be used; the message says why."""


class AlreadyInitializedError(GPUKitError, RuntimeError):
    """TensorFlow has started its devices, so a setting that must come first cannot be applied."""


class ClusterError(GPUKitError):
    """The environment describes a cluster wrongly or in part; the message names the variable."""


class WorkerError(GPUKitError, RuntimeError):
    """A process of the cluster did not come, or was lost during training; the message names it."""


class TrialError(GPUKitError, RuntimeError):
    """A trial in a process of its own failed, not for memory; the message has what it reported."""


class ProfileError(GPUKitError):
    """A file cannot be read as a profile; the message says what it is, and what to do."""


class GPUKitWarning(UserWarning):
    """Something was resolved or given up that the user should know; training goes on."""


logger = logging.getLogger("keras_gpukit")
"""Where a monitored run logs what failed; never an exception, which would end training."""


def give_up(what: str, error: BaseException, consequence: str) -> None:
    """Logs that a part of the monitoring failed, and what is lost by it."""
    logger.warning(
        "keras_gpukit: %s failed (%s: %s). %s Training goes on as if it were not watched.",
        what,
        type(error).__name__,
        error,
        consequence,
    )


class Guard:
    """Entered around a part of the monitoring: an exception ends there, and is logged once.

    Only `Exception` is caught: Ctrl-C passes through.

    ```python
    guard = Guard("Reading the host", "It is not read again in this run.")
    with guard:
        sensor.read()
    if guard.failed_because: ...
    ```

    Args:
        part: What may fail, as the warning's subject.
        consequence: What is lost by it, in a sentence.

    Attributes:
        failed_because: The first failure in words; None without one. The exception itself would
            keep the frames it passed through alive, and with them the run's data.
        logs: Whether a failure is logged.
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
            self.failed_because = f"{type(error).__name__}: {error}"
            if self.logs:
                give_up(self._part, error, self._consequence)
        return True


def add_note(error: BaseException, note: str) -> None:
    """Adds a note to an exception, which is raised on unchanged.

    Python 3.10 has no notes: there the attribute that holds them is set, for tools that read it,
    and the note is printed on standard error, as tracebacks leave it out.
    """
    if sys.version_info >= (3, 11):
        error.add_note(note)
        return
    notes = getattr(error, "__notes__", [])
    error.__notes__ = [*notes, note]  # type: ignore[attr-defined]
    print(note, file=sys.stderr)
