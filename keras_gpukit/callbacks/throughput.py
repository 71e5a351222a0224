"""`Throughput`: step time and examples per second."""

from __future__ import annotations

import os

from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.callbacks.session import Session
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.records.steps import Phase, StepWindow, ThroughputRecord


class Throughput(WatchingCallback):
    """Measures step time and examples per second.

    Writes `step/time_ms` and `step/examples_per_s`.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: After the run, a `ThroughputRecord`.
        validation: After a `fit` with validation data, that of the validation.

    Raises:
        TypeError: If `log_dir` is no path.
        ValueError: If `log_dir` is empty or a file.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__(log_dir)
        self.summary: ThroughputRecord | None = None
        self.validation: ThroughputRecord | None = None
        self._totals: dict[Phase, StepTotals] = {}

    def begin(self, session: Session, phase: Phase) -> None:
        """Starts or goes on counting."""
        if phase == session.phase:
            self.summary = self.validation = None
            self._totals = {}
        totals = self._totals.setdefault(phase, StepTotals(phase))

        def on_window(window: StepWindow) -> None:
            totals.add(window)
            if session.log is not None and phase == session.phase:
                rate = None if window.examples is None else window.examples / window.duration_s
                session.log.values(
                    window.step,
                    {
                        "step/time_ms": window.duration_s / window.steps * 1e3,
                        "step/examples_per_s": rate,
                    },
                    window.time_s,
                )

        session.watch_steps(phase, on_window)

    def end(self, session: Session, phase: Phase) -> None:
        """Sums up."""
        session.unwatch_steps(phase)
        outer = phase == session.phase
        record = self._totals[phase].throughput(
            session.steps(phase), session.wall_s if outer else None
        )
        if outer:
            self.summary = record
        else:
            self.validation = record
