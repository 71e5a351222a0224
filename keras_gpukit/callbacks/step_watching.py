"""Base class of callbacks that show windows of steps."""

from __future__ import annotations

import os

from keras_gpukit.callbacks.base import R, WatchingCallback
from keras_gpukit.records.steps import Phase, StepWindow
from keras_gpukit.watching.session import Session


class StepWatchingCallback(WatchingCallback[R]):
    """Writes windows of the call's own steps to TensorBoard, and keeps a record of each phase.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__(log_dir)
        self._validation: R | None = None

    @property
    def validation(self) -> R | None:
        """Record of the validation within the last `fit`; None without one."""
        self.lifecycle.end_if_over()
        return self._validation

    def tags(self, window: StepWindow) -> dict[str, float | None]:
        """Returns the figures of a window for TensorBoard, by tag."""
        raise NotImplementedError

    def sum_up(self, session: Session, phase: Phase) -> R:
        """Returns the record of a phase."""
        raise NotImplementedError

    def begin(self, session: Session, phase: Phase) -> None:
        """Starts or continues to time the steps of a phase."""
        if phase == session.phase:
            self._summary = self._validation = None

        def on_window(window: StepWindow) -> None:
            if phase == session.phase:
                session.output.values(window.step, self.tags(window), window.time_s, window.steps)

        session.on_window(phase, on_window)

    def end(self, session: Session, phase: Phase) -> None:
        """Makes the record of a phase."""
        session.end_phase(phase)
        record = self.sum_up(session, phase)
        if phase == session.phase:
            self._summary = record
        else:
            self._validation = record
