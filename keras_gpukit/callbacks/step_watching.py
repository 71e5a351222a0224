"""What the callbacks that are told of steps do alike."""

from __future__ import annotations

import os

from keras_gpukit.callbacks.base import R, WatchingCallback
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.records.steps import Phase, StepWindow
from keras_gpukit.watching.session import Session


class StepWatchingCallback(WatchingCallback[R]):
    """Adds up windows of steps, and shows those of the call itself in TensorBoard.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__(log_dir)
        self._validation: R | None = None
        self._totals: dict[Phase, StepTotals] = {}

    @property
    def validation(self) -> R | None:
        """The same of the validation within a `fit`; None where there was none."""
        self.end_if_over()
        return self._validation

    def tags(self, window: StepWindow) -> dict[str, float | None]:
        """What TensorBoard shows of a window, by tag."""
        raise NotImplementedError

    def sum_up(self, session: Session, totals: StepTotals) -> R:
        """The record of a phase."""
        raise NotImplementedError

    def begin(self, session: Session, phase: Phase) -> None:
        """Starts or goes on counting."""
        if phase == session.phase:
            self._summary = self._validation = None
            self._totals = {}
        totals = self._totals.setdefault(phase, StepTotals(phase))

        def on_window(window: StepWindow) -> None:
            totals.add(window)
            if session.log is not None and phase == session.phase:
                session.log.values(window.step, self.tags(window), window.time_s)

        session.step_functions.watch(phase, on_window)

    def end(self, session: Session, phase: Phase) -> None:
        """Sums up."""
        session.step_functions.unwatch(phase)
        record = self.sum_up(session, self._totals[phase])
        if phase == session.phase:
            self._summary = record
        else:
            self._validation = record
