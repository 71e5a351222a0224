"""Step times, rates and input wait, in windows of steps and over a whole phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from keras_gpukit.records.pipeline import ContentionRecord, PipelineRecord, PythonSourceRecord
from keras_gpukit.records.step_times import StepTimes

Phase = Literal["fit", "evaluate", "predict"]
Confidence = Literal["exact", "sampled", "upper bound"]


@dataclass(frozen=True)
class StepWindow:
    """Consecutive steps measured together; what one point in TensorBoard is made from.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        time_s: When the window ended, in seconds since the Unix epoch.
        step: Global step at the window's end.
        steps: Steps in the window.
        duration_s: From the start of the window's first step to that of the step after its last;
            in an epoch of one or two steps, to the end of the last.
        input_wait_s: Part of `duration_s` spent blocked on the next batch, all steps together.
        examples: Examples trained on.
        buffered_batches: Fill of the pipeline's last buffer when the window ended.
        between_s: Part of `duration_s` between the calls of the step function: callbacks, and
            Keras' own loop.
    """

    phase: Phase
    time_s: float
    step: int
    steps: int
    duration_s: float
    input_wait_s: float | None = None
    examples: int | None = None
    buffered_batches: float | None = None
    between_s: float | None = None


@dataclass(frozen=True)
class ThroughputRecord:
    """How fast a phase went. Times leave out tracing, epoch ends and validation.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        steps: Steps that ran, measured or not.
        measured_steps: Steps that the times below are made from.
        step_time_s: Mean step time.
        examples_per_s: Mean rate of this process; the rate of a job is the sum over its workers.
        wall_s: From the phase's begin to its end, everything included.
        examples_unknown_because: Why the rate is None, where steps were measured.
        step_times: The distribution of the step times.
        updates: Updates by the model's optimizer during `fit`: fewer than steps where gradients
            accumulate. None where some of what it counted may have been none.
        executions: Calls of the step function, each of up to `steps_per_execution` steps.
    """

    phase: Phase
    steps: int
    measured_steps: int
    step_time_s: float | None
    examples_per_s: float | None
    wall_s: float | None = None
    examples_unknown_because: str | None = None
    step_times: StepTimes | None = None
    updates: int | None = None
    executions: int | None = None


@dataclass(frozen=True)
class WaitDistribution:
    """Distribution of the wait over steps.

    With several steps to an execution, a step's wait is the mean of its execution.

    Attributes:
        median_s: Half of the steps waited no longer. To 5 %, as the next one.
        p95_s: 95 % of the steps waited no longer.
        worst_s: The longest wait.
        stalled_fraction: Share of the steps that waited a tenth of their time or longer, and at
            least 0.25 ms, 0 to 1.
        bursts: How often stalled steps came, one or several in a row.
        burst_steps: Mean length of a burst, in steps.
        burst_period_steps: From one burst to the next, where bursts come regularly: the distances
            deviate by no more than a quarter.
    """

    median_s: float
    p95_s: float
    worst_s: float
    stalled_fraction: float
    bursts: int
    burst_steps: float | None = None
    burst_period_steps: float | None = None


@dataclass(frozen=True)
class PipelineStartRecord:
    """The wait for the first batch of an epoch; not in the steps' wait.

    Attributes:
        epochs: Epochs whose start was measured. The first of a run is not, since the step that
            asks for it may trace.
        mean_s: Mean wait.
        shuffle_s: Part of it that filled shuffle buffers, taken by the share of the elements drawn
            until then that stayed in a buffer; None where that is unknown.
        longest_s: The longest waits, at most five, the longest first.
    """

    epochs: int
    mean_s: float
    shuffle_s: float | None = None
    longest_s: tuple[float, ...] = ()


_ROUNDING = 1e-9
"""A smaller share of the wall time is what sums of the parts are rounded by."""


@dataclass(frozen=True)
class TimeBreakdown:
    """Where a phase's wall time went. Together with `unknown_s`, the parts add up to the whole.

    Attributes:
        wall_s: From the phase's begin to its end.
        input_s: Steps waiting for their batches, epochs' first batches not included.
        compute_s: The rest of the step function's time.
        callbacks_s: Between steps, with Keras' own loop, and between epochs: callbacks of all
            kinds, checkpoints among them.
        epoch_start_s: Beginning the pipeline of each epoch, its first batch included, and finding
            its end.
        first_step_s: The run's very first step: tracing, compiling and the first batch.
        validation_s: Validation within `fit`, with what Keras does after it in that epoch, such as
            freeing its pipeline.
        other_s: What Keras does at an epoch's end, and what callbacks do there that stand before
            the one that shows this.
        tracing_s: First steps of later epochs, with their batch, whose step function was made
            again: traced and compiled.
        tracings: How many of those there were.
        by_callback: Part of `callbacks_s` by the callback's class, as far as it was seen.
    """

    wall_s: float
    input_s: float | None
    compute_s: float | None
    callbacks_s: float
    epoch_start_s: float
    first_step_s: float
    validation_s: float
    other_s: float
    tracing_s: float = 0.0
    tracings: int = 0
    by_callback: dict[str, float] = field(default_factory=dict)

    @property
    def unknown_s(self) -> float:
        """Time that none of the parts accounts for, as steps whose wait is unknown."""
        unknown_s = self.wall_s - sum(filter(None, self.parts.values()))
        return unknown_s if unknown_s > _ROUNDING * self.wall_s else 0.0

    @property
    def parts(self) -> dict[str, float | None]:
        """The parts by their names in reports."""
        return {
            "compute": self.compute_s,
            "input": self.input_s,
            "epoch starts": self.epoch_start_s,
            "the first step": self.first_step_s,
            "tracing again": self.tracing_s,
            "validation": self.validation_s,
            "callbacks": self.callbacks_s,
            "other": self.other_s,
        }


@dataclass(frozen=True)
class InputRecord:
    """How long steps were blocked on their next batch.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        mechanism: How the wait was measured.
        confidence: "exact"; "sampled" where several steps make one execution, and how much of
            the wait hides behind compute was taken from those steps that show it; "upper bound"
            where part of the wait may hide behind compute.
        measured_steps: Steps that the figures below are made from.
        wait_s: Mean wait of a step.
        stall_fraction: Wait over step time, 0 to 1.
        later_stall_fraction: The same without the first epoch, in which a cache may fill; None if
            the run had one epoch.
        buffered_batches: Mean fill of the pipeline's last buffer.
        unknown_because: Why the figures are None, where they are.
        distribution: The distribution of the wait over steps, where each step's is known.
        pipeline_start: The wait for the first batches of epochs.
        breakdown: Where the wall time went; of `fit` and `evaluate`, and of no validation.
        pipeline: What the stages of the tf.data pipeline cost, and which one is the bottleneck.
        python: The Python code that makes the batches, where it is the user's own.
        contention: How much threads were in each other's way; of no validation.
    """

    phase: Phase
    mechanism: str | None = None
    confidence: Confidence | None = None
    measured_steps: int = 0
    wait_s: float | None = None
    stall_fraction: float | None = None
    later_stall_fraction: float | None = None
    buffered_batches: float | None = None
    unknown_because: str | None = None
    distribution: WaitDistribution | None = None
    pipeline_start: PipelineStartRecord | None = None
    breakdown: TimeBreakdown | None = None
    pipeline: PipelineRecord | None = None
    python: PythonSourceRecord | None = None
    contention: ContentionRecord | None = None


Part = Literal["callbacks", "epoch start", "first step", "steps", "validation", "other"]
"""What a call of `fit`, `evaluate` or `predict` can be doing: "callbacks" between epochs; the
"epoch start", at which its pipeline starts; the "first step", which traces and compiles; "steps";
a "validation" within `fit`; or what Keras does at an epoch's end."""


@dataclass(frozen=True)
class Progress:
    """Where a run is.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        part: What it is doing.
        step: Global step.
        epoch: The epoch under way, counted from 1; None before the first, and outside `fit`.
        epochs: The number of the last epoch; None where it is unknown.
        epoch_steps: Steps of an epoch; None where they are unknown.
    """

    phase: Phase
    part: Part
    step: int
    epoch: int | None = None
    epochs: int | None = None
    epoch_steps: int | None = None
