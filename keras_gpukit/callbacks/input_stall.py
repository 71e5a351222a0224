"""`InputStall`: how long training waits for its next batch."""

from __future__ import annotations

import os

from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.callbacks.session import Session
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.records.steps import InputRecord, Phase, StepWindow


class InputStall(WatchingCallback):
    """Measures how long steps are blocked on their next batch.

    Keras fetches batches inside its train function, where callbacks cannot see the wait, so it is
    read from tf.data itself. Writes `input/wait_ms`, `input/stall_percent` and
    `input/buffered_batches`.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: After the run, an `InputRecord`.
        validation: After a `fit` with validation data, that of the validation.

    Raises:
        TypeError: If `log_dir` is no path.
        ValueError: If `log_dir` is empty or a file.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__(log_dir)
        self.summary: InputRecord | None = None
        self.validation: InputRecord | None = None
        self._totals: dict[Phase, StepTotals] = {}

    def begin(self, session: Session, phase: Phase) -> None:
        """Starts or goes on measuring."""
        if phase == session.phase:
            self.summary = self.validation = None
            self._totals = {}
        totals = self._totals.setdefault(phase, StepTotals(phase))

        def on_window(window: StepWindow) -> None:
            totals.add(window)
            wait_s = window.input_wait_s
            if session.log is not None and phase == session.phase and wait_s is not None:
                session.log.values(
                    window.step,
                    {
                        "input/wait_ms": wait_s / window.steps * 1e3,
                        "input/stall_percent": wait_s / window.duration_s * 1e2,
                        "input/buffered_batches": window.buffered_batches,
                    },
                    window.time_s,
                )

        session.watch_steps(phase, on_window)

    def end(self, session: Session, phase: Phase) -> None:
        """Sums up."""
        session.unwatch_steps(phase)
        clock = session.clocks[phase]
        record = self._totals[phase].input(
            clock.meter.mechanism if clock.meter else None,
            clock.meter.confidence if clock.meter else None,
            clock.unknown_because,
        )
        if phase == session.phase:
            self.summary = record
        else:
            self.validation = record
