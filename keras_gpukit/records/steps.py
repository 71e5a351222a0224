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
    """Consecutive steps that were measured together. TensorBoard shows a window as one point.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        time_s: When the window ended, in seconds since the Unix epoch.
        step: Global step when the window ended.
        steps: Number of steps in the window.
        duration_s: Time from the start of the window's first step to the start of the step after
            its last. In an epoch of one or two steps, to the end of the last step.
        input_wait_s: Part of `duration_s` in which steps were blocked on their next batch, all
            steps together.
        examples: Number of examples trained on.
        buffered_batches: Number of batches in the pipeline's last buffer when the window ended.
        between_s: Part of `duration_s` between the calls of the step function: callbacks, and
            Keras' own loop.
        most_wait_s: Upper end of the range of `input_wait_s`; None if that is no range.
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
    most_wait_s: float | None = None


@dataclass(frozen=True)
class ThroughputRecord:
    """Speed of a phase. Times do not include tracing, epoch ends and validation.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        steps: Number of steps that ran, measured or not.
        measured_steps: Number of steps that the times below are computed from.
        step_time_s: Mean step time.
        examples_per_s: Mean number of examples per second of this process. The rate of a job is the
            sum over its workers.
        wall_s: Time from the start of the phase to its end, everything included.
        examples_unknown_because: Why `examples_per_s` is None although steps were measured; None
            otherwise.
        step_times: Distribution of the step times.
        updates: Number of updates by the model's optimizer during `fit`, fewer than the steps if
            gradients are accumulated. None if unknown, since the optimizer may have counted a step
            that found no data.
        executions: Number of calls of the step function, each of up to `steps_per_execution` steps.
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

    With several steps per execution, the wait of a step is the mean of its execution.

    Attributes:
        median_s: Wait that half of the steps did not exceed, accurate to 5 %.
        p95_s: Wait that 95 % of the steps did not exceed, accurate to 5 %.
        worst_s: Longest wait.
        stalled_fraction: Share of stalled steps, 0 to 1: those that waited for at least a tenth of
            their time and at least 0.25 ms.
        bursts: Number of bursts. A burst is one stalled step, or several in a row.
        burst_steps: Mean length of a burst, in steps; None without bursts.
        burst_period_steps: Mean distance from the start of one burst to the next, in steps; None
            unless bursts come regularly: the standard deviation of the distances is at most a
            quarter of their mean.
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
    """Wait for the first batch of an epoch, which is not in the steps' wait.

    Attributes:
        epochs: Number of epochs whose start was measured. The first epoch of a run is not measured,
            since its first step may trace.
        mean_s: Mean wait, in seconds.
        shuffle_s: Part of the mean wait that filled shuffle buffers, estimated from the share of
            the elements drawn until then that stayed in a buffer; None if unknown.
        longest_s: Longest waits in seconds, at most five, the longest first.
    """

    epochs: int
    mean_s: float
    shuffle_s: float | None = None
    longest_s: tuple[float, ...] = ()


_ROUNDING = 1e-9
"""Smaller shares of the wall time are rounding errors in the sums of the parts."""


RetraceCause = Literal["Python value", "shape", "dtype", "made again"]


@dataclass(frozen=True)
class RetracedFunction:
    """A `tf.function` of user code that was traced more than once during a call.

    Attributes:
        name: The function's name.
        location: "file.py:12" of the function.
        times: Number of tracings.
        spent_s: Seconds of the calls that traced it, from the start of the tracing on.
        cause: Most frequent difference between one tracing and the next: a Python value of an
            argument, the shape or dtype of one, or the `tf.function` itself, which was made again.
            None if unknown.
        argument: Name of that argument; None if it is none.
    """

    name: str
    location: str
    times: int
    spent_s: float
    cause: RetraceCause | None = None
    argument: str | None = None

    @property
    def again_s(self) -> float:
        """Seconds of all tracings but one."""
        return self.spent_s * (1 - 1 / self.times)


@dataclass(frozen=True)
class TimeBreakdown:
    """Wall time of a phase by part. Together with `unknown_s`, the parts add up to the whole.

    Attributes:
        wall_s: Seconds from the start of the phase to its end.
        input_s: Seconds that steps waited for their batches, without the first batches of epochs;
            None if unknown.
        compute_s: Seconds of the rest of the step function's time; None if unknown.
        callbacks_s: Seconds in callbacks of all kinds, including checkpoints: between steps,
            together with Keras' own loop, and between epochs.
        epoch_start_s: Seconds to start the pipeline of each epoch, including its first batch, and
            to find its end.
        first_step_s: Seconds of the run's very first step: tracing, compiling and the first batch.
        validation_s: Seconds of validations within `fit`, with what Keras does after them in that
            epoch, such as freeing their pipeline.
        other_s: Seconds of Keras' own work at the end of an epoch, and of callbacks there that are
            listed before the one that shows this.
        tracing_s: Seconds for which later steps were traced or compiled again: those of epochs'
            first steps whose step function was made again, including their batch, and those for
            which XLA compiled within other steps.
        tracings: Number of epochs' first steps whose step function was made again.
        compilations: Number of programs that XLA compiled in steps after the first, such as for a
            new shape of the batch, without those of `tracings`. Those of validations count except
            for one. All of this process count. None if unknown.
        compiling_s: Seconds that they took; None if unknown.
        hangs_s: Seconds in which no step ended for a minute or more and the process waited.
        by_callback: Seconds of `callbacks_s` by class of the callback, as far as they were seen.
        callbacks_at_epochs: Those of them at the start and the end of epochs.
        retraced: Functions of user code that were traced more than once, such as in eager steps or
            callbacks. The parts above contain their time.
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
    compilations: int | None = None
    compiling_s: float | None = None
    hangs_s: float = 0.0
    by_callback: dict[str, float] = field(default_factory=dict)
    callbacks_at_epochs: dict[str, float] = field(default_factory=dict)
    retraced: tuple[RetracedFunction, ...] = ()

    @property
    def unknown_s(self) -> float:
        """Seconds that none of the parts accounts for, such as steps whose wait is unknown."""
        unknown_s = self.wall_s - sum(filter(None, self.parts.values()))
        return unknown_s if unknown_s > _ROUNDING * self.wall_s else 0.0

    @property
    def parts(self) -> dict[str, float | None]:
        """Seconds of the parts, by their names in reports."""
        return {
            "compute": self.compute_s,
            "input": self.input_s,
            "epoch starts": self.epoch_start_s,
            "the first step": self.first_step_s,
            "tracing again": self.tracing_s,
            "hangs": self.hangs_s,
            "validation": self.validation_s,
            "callbacks": self.callbacks_s,
            "other": self.other_s,
        }


@dataclass(frozen=True)
class InputRecord:
    """Time that steps were blocked on their next batch.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        mechanism: How the wait was measured.
        confidence: "exact"; "sampled" if several steps make one execution and the part of the wait
            that is hidden behind compute was taken from those steps that show it, or if batches are
            buffered on a GPU and their arrival is known from when the host handed them out, or if a
            profile corrected the figures; "upper bound" if part of the wait may be hidden behind
            compute. A sampled wait of several steps per execution is the lower end of a range, and
            the figures below are those of that end.
        measured_steps: Number of steps that the figures below are computed from.
        wait_s: Mean wait of a step, in seconds.
        stall_fraction: Wait as a share of the step time, 0 to 1.
        later_stall_fraction: Wait as a share of the step time without the first epoch, in which a
            cache may fill; None if the run had one epoch.
        live_stall_fraction: Share that was measured during the run, if a profile of some of its
            steps refuted it: all figures here are then corrected by the profile. None otherwise.
        buffered_batches: Mean number of batches in the pipeline's last buffer.
        unknown_because: Why the figures are None; None if they are known.
        distribution: Distribution of the wait over steps; None if the waits of single steps are
            unknown.
        pipeline_start: Wait for the first batches of epochs.
        breakdown: Wall time by part, for calls of `fit` and `evaluate`; None for a validation.
        pipeline: Costs of the stages of the tf.data pipeline, and which one is the bottleneck.
        python: Python code that makes the batches, if it is the user's own; None otherwise.
        contention: How much the threads of the run slowed each other down; None for a validation.
        most_stall_fraction: Upper end of the range of `stall_fraction`; None unless the wait is
            sampled from several steps per execution.
        open_shapes: Shapes of the batch's tensors that vary in more than the number of examples, as
            the dataset describes them, such as "(None, None, 8)". None if unknown, and outside
            `fit`.
    """

    phase: Phase
    mechanism: str | None = None
    confidence: Confidence | None = None
    measured_steps: int = 0
    wait_s: float | None = None
    stall_fraction: float | None = None
    later_stall_fraction: float | None = None
    live_stall_fraction: float | None = None
    buffered_batches: float | None = None
    unknown_because: str | None = None
    distribution: WaitDistribution | None = None
    pipeline_start: PipelineStartRecord | None = None
    breakdown: TimeBreakdown | None = None
    pipeline: PipelineRecord | None = None
    python: PythonSourceRecord | None = None
    contention: ContentionRecord | None = None
    most_stall_fraction: float | None = None
    open_shapes: tuple[str, ...] | None = None


Part = Literal["callbacks", "epoch start", "first step", "steps", "validation", "other"]
"""Activity of a call of `fit`, `evaluate` or `predict`: "callbacks" between epochs; the "epoch
start", at which its pipeline starts; the "first step", which traces and compiles; "steps"; a
"validation" within `fit`; or "other": what Keras does at an epoch's end."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run.

    Attributes:
        phase: "fit", "evaluate" or "predict".
        part: Current activity.
        step: Global step.
        epoch: Current epoch, counted from 1; None before the first one and outside `fit`.
        epochs: Number of the last epoch; None if unknown.
        epoch_steps: Steps per epoch; None if unknown.
    """

    phase: Phase
    part: Part
    step: int
    epoch: int | None = None
    epochs: int | None = None
    epoch_steps: int | None = None
