"""Step times, rates and input wait, in windows of steps and over a whole phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal["fit", "evaluate", "predict"]
Confidence = Literal["exact", "upper bound"]


@dataclass(frozen=True)
class StepWindow:
    """Consecutive steps measured together; what one point in TensorBoard is made from.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        time_s: When the window ended, in seconds since the Unix epoch.
        step: Global step at the window's end.
        steps: Steps in the window.
        duration_s: From the start of the window's first step to that of the step after its last.
        input_wait_s: Part of `duration_s` spent blocked on the next batch, all steps together.
        examples: Examples trained on.
        buffered_batches: Fill of the pipeline's last buffer when the window ended.
    """

    phase: Phase
    time_s: float
    step: int
    steps: int
    duration_s: float
    input_wait_s: float | None = None
    examples: int | None = None
    buffered_batches: float | None = None


@dataclass(frozen=True)
class ThroughputRecord:
    """How fast a phase went. Times leave out tracing, epoch ends and validation.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        steps: Steps that ran, measured or not.
        measured_steps: Steps that the times below are made from.
        step_time_s: Mean time of a step.
        examples_per_s: Mean rate.
        wall_s: From the phase's begin to its end, everything included.
    """

    phase: Phase
    steps: int
    measured_steps: int
    step_time_s: float | None
    examples_per_s: float | None
    wall_s: float | None = None


@dataclass(frozen=True)
class InputRecord:
    """How long steps were blocked on their next batch.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        mechanism: How the wait was measured.
        confidence: "exact", or "upper bound" where part of the wait may hide behind compute.
        measured_steps: Steps that the figures below are made from.
        wait_s: Mean wait of a step.
        stall_fraction: Wait over step time, 0 to 1.
        buffered_batches: Mean fill of the pipeline's last buffer.
        unknown_because: Why the figures are None, where they are.
    """

    phase: Phase
    mechanism: str | None = None
    confidence: Confidence | None = None
    measured_steps: int = 0
    wait_s: float | None = None
    stall_fraction: float | None = None
    buffered_batches: float | None = None
    unknown_because: str | None = None
