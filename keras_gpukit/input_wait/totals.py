"""Adds up the windows of a phase's steps, and makes its records, in fixed memory."""

from __future__ import annotations

import heapq

from keras_gpukit.input_wait.meters import PipelineStart
from keras_gpukit.input_wait.step_time_histogram import StepTimeHistogram
from keras_gpukit.input_wait.wait_distribution import WaitHistogram
from keras_gpukit.records.steps import (
    Confidence,
    InputRecord,
    Phase,
    PipelineStartRecord,
    StepWindow,
    ThroughputRecord,
)

NOT_COUNTED = (
    "train_step or test_step does not update the loss tracker with sample_weight=<batch size>"
)
MOST_LONGEST = 5
"""Maximum number of waits for first batches that are kept individually: the longest ones."""
TOO_SHORT = "no epoch had enough steps to measure, or all steps took 10 s or more"
ONLY_STARTS = (
    "only the first execution of each epoch was measured, whose wait counts as the pipeline's start"
)


class PipelineStarts:
    """Adds up the waits for first batches."""

    def __init__(self) -> None:
        self.epochs = 0
        """Number of measured waits, one per epoch."""
        self._wait_s = 0.0
        self._longest_s: list[float] = []
        # Sums over the waits whose shuffle fraction is known.
        self._known_wait_s = self._shuffle_s = 0.0

    def add(self, start: PipelineStart) -> None:
        """Adds a wait."""
        self.epochs += 1
        self._wait_s += start.wait_s
        self._longest_s = heapq.nlargest(MOST_LONGEST, (*self._longest_s, start.wait_s))
        if start.shuffle_fraction is not None:
            self._known_wait_s += start.wait_s
            self._shuffle_s += start.wait_s * start.shuffle_fraction

    def record(self) -> PipelineStartRecord | None:
        """Returns the means and the longest waits; None if no wait was measured."""
        if not self.epochs:
            return None
        mean_s, known_s = self._wait_s / self.epochs, self._known_wait_s
        shuffle_s = mean_s * self._shuffle_s / known_s if known_s else None
        return PipelineStartRecord(self.epochs, mean_s, shuffle_s, longest_s=tuple(self._longest_s))


class StepTotals:
    """Adds up the windows of a phase.

    Args:
        phase: "fit", "evaluate" or "predict".
        steps_per_execution: Number of steps in one call of the step function.

    Attributes:
        distribution: Histogram of the waits.
        step_times: Histogram of the step times.
        starts: Waits for the first batches of epochs.
    """

    def __init__(self, phase: Phase, steps_per_execution: int = 1) -> None:
        self.phase = phase
        self.distribution = WaitHistogram(steps_per_execution)
        self.step_times = StepTimeHistogram(steps_per_execution)
        self.starts = PipelineStarts()
        self._steps = 0
        self._duration_s = 0.0
        self._counted_s = 0.0
        self._examples = 0
        self._epochs = 0
        self._later_duration_s = self._later_wait_s = 0.0
        self._waited_steps = 0
        self._waited_duration_s = 0.0
        self._wait_s = self._most_wait_s = 0.0
        self._has_ranges = False
        self._readings = 0
        self._buffered = 0.0

    def begin_epoch(self) -> None:
        """Notes that the steps of another epoch start."""
        self._epochs += 1

    def add(self, window: StepWindow) -> None:
        """Adds a window."""
        self._steps += window.steps
        self._duration_s += window.duration_s
        if window.examples is not None:
            self._examples += window.examples
            self._counted_s += window.duration_s
        if window.input_wait_s is not None:
            self._waited_steps += window.steps
            self._waited_duration_s += window.duration_s
            self._wait_s += window.input_wait_s
            self._most_wait_s += window.most_wait_s or window.input_wait_s
            self._has_ranges |= window.most_wait_s is not None
            if self._epochs > 1:
                self._later_duration_s += window.duration_s
                self._later_wait_s += window.input_wait_s
        if window.buffered_batches is not None:
            self._readings += 1
            self._buffered += window.buffered_batches

    @property
    def step_time_s(self) -> float | None:
        """Mean step time in seconds; None before the first window."""
        return self._duration_s / self._steps if self._steps else None

    def throughput(self, steps: int, wall_s: float | None) -> ThroughputRecord:
        """Returns step times and rates.

        Args:
            steps: Number of steps that ran, measured or not.
            wall_s: Wall time of the whole phase, in seconds; None if unknown.
        """
        return ThroughputRecord(
            phase=self.phase,
            steps=steps,
            measured_steps=self._steps,
            step_time_s=self.step_time_s,
            examples_per_s=self._examples / self._counted_s if self._counted_s else None,
            wall_s=wall_s,
            examples_unknown_because=(NOT_COUNTED if self._steps and not self._counted_s else None),
            step_times=self.step_times.record(),
        )

    def input(
        self, mechanism: str | None, confidence: Confidence | None, unknown_because: str | None
    ) -> InputRecord:
        """Returns the input wait.

        Args:
            mechanism: Name of the measuring mechanism; None without a meter.
            confidence: Confidence of the measurement; None without a meter.
            unknown_because: Reason to report if no step's wait was measured; None if there is no
                specific reason.
        """
        if self._waited_steps == 0:
            start = self.starts.record()
            reason = unknown_because or (TOO_SHORT if start is None else ONLY_STARTS)
            return InputRecord(self.phase, mechanism, unknown_because=reason, pipeline_start=start)
        return InputRecord(
            phase=self.phase,
            mechanism=mechanism,
            confidence=confidence,
            measured_steps=self._waited_steps,
            wait_s=self._wait_s / self._waited_steps,
            stall_fraction=self._wait_s / self._waited_duration_s,
            most_stall_fraction=(
                self._most_wait_s / self._waited_duration_s if self._has_ranges else None
            ),
            later_stall_fraction=(
                self._later_wait_s / self._later_duration_s if self._later_duration_s else None
            ),
            buffered_batches=self._buffered / self._readings if self._readings else None,
            distribution=self.distribution.record(),
            pipeline_start=self.starts.record(),
        )
