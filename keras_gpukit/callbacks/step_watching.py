"""Base class of callbacks that measure steps."""

from __future__ import annotations

import os

from keras_gpukit.callbacks.base import R, WatchingCallback
from keras_gpukit.records.steps import Phase
from keras_gpukit.watching.session import Session


class StepWatchingCallback(WatchingCallback[R]):
    """Times the steps of the call and of validations in it, and keeps a record of each.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__(log_dir)
        self._validation: R | None = None

    @property
    def validation(self) -> R | None:
        """Record of the validation within the last `fit`; None without one."""
        self._lifecycle.end_if_over()
        return self._validation

    def _record(self, session: Session, phase: Phase) -> R:
        """Writes the record of a phase, and returns it."""
        raise NotImplementedError

    def _begin(self, session: Session, phase: Phase) -> None:
        if phase == session.phase:
            self._summary = self._validation = None
        session.on_window(phase, lambda window: None)

    def _end(self, session: Session, phase: Phase) -> None:
        session.end_phase(phase)
        record = self._record(session, phase)
        if phase == session.phase:
            self._summary = record
        else:
            self._validation = record
