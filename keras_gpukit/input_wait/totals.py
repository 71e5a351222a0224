"""Windows of steps added up to a phase's record, in fixed memory."""

from __future__ import annotations

from keras_gpukit.input_wait.trend import Trend
from keras_gpukit.records.steps import (
    Confidence,
    InputRecord,
    Phase,
    StepWindow,
    ThroughputRecord,
)


class StepTotals:
    """Adds windows up.

    Args:
        phase: "fit", "evaluate" or "predict".
    """

    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self._steps = 0
        self._duration_s = 0.0
        self._counted_s = 0.0
        self._examples = 0
        self._waited_steps = 0
        self._waited_duration_s = 0.0
        self._wait_s = 0.0
        self._readings = 0
        self._buffered = 0.0
        self._trend = Trend()

    def add(self, window: StepWindow) -> None:
        """Takes one window in."""
        self._steps += window.steps
        self._duration_s += window.duration_s
        if window.examples is not None:
            self._examples += window.examples
            self._counted_s += window.duration_s
        if window.input_wait_s is not None:
            self._waited_steps += window.steps
            self._waited_duration_s += window.duration_s
            self._wait_s += window.input_wait_s
            self._trend.add(window)
        if window.buffered_batches is not None:
            self._readings += 1
            self._buffered += window.buffered_batches

    @property
    def step_time_s(self) -> float | None:
        """Mean step time."""
        return self._duration_s / self._steps if self._steps else None

    def throughput(self, steps: int, wall_s: float | None) -> ThroughputRecord:
        """Returns step times and rates.

        Args:
            steps: Steps that ran, measured or not.
            wall_s: The phase's whole time.
        """
        return ThroughputRecord(
            phase=self.phase,
            steps=steps,
            measured_steps=self._steps,
            step_time_s=self.step_time_s,
            examples_per_s=self._examples / self._counted_s if self._counted_s else None,
            wall_s=wall_s,
        )

    def input(
        self, mechanism: str | None, confidence: Confidence | None, unknown_because: str | None
    ) -> InputRecord:
        """Returns the input wait.

        Args:
            mechanism: How it was measured.
            confidence: How sure it is.
            unknown_because: Why it was not measured.
        """
        if self._waited_steps == 0:
            reason = unknown_because or "no epoch had three steps, or all steps took ten seconds"
            return InputRecord(self.phase, mechanism, None, unknown_because=reason)
        return InputRecord(
            phase=self.phase,
            mechanism=mechanism,
            confidence=confidence,
            measured_steps=self._waited_steps,
            wait_s=self._wait_s / self._waited_steps,
            stall_fraction=self._wait_s / self._waited_duration_s,
            buffered_batches=self._buffered / self._readings if self._readings else None,
            trend=self._trend.record(),
        )
