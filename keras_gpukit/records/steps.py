"""Step times, rates and input wait, in windows of steps and over a whole phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from keras_gpukit.records.pipeline import ContentionRecord, PipelineRecord, PythonSourceRecord

Phase = Literal["fit", "evaluate", "predict"]
Confidence = Literal["exact", "sampled", "upper bound"]
Mechanism = Literal[
    "pipeline model",
    "fetch latency",
    "batch arrival",
    "timed fetch",
    "timed calls of the dataset's iterator",
    "profile",
]
"""How an input wait was measured."""


@dataclass(frozen=True)
class StepWindow:
    """Consecutive steps that were measured together. TensorBoard shows a window as one point.

    Attributes:
        duration_s: Time from the start of the window's first step to the start of the step after
            its last. In an epoch of one or two steps, to the end of the last step.
        input_wait_s: Part of `duration_s` in which steps were blocked on their next batch, all
            steps together.
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
        examples_per_s: Mean number of examples per second of this process. The rate of a job is the
            sum over its workers.
        executions: Number of calls of the step function, each of up to `steps_per_execution` steps.
        passes: How often an epoch, or a validation, of a set number of steps goes over its data,
            where `ds.repeat()` repeats them; None if they are not repeated, or it is unknown.
    """

    phase: Phase
    steps: int
    measured_steps: int
    step_time_s: float | None
    examples_per_s: float | None
    wall_s: float | None = None
    examples_unknown_because: str | None = None
    executions: int | None = None
    passes: float | None = None


@dataclass(frozen=True)
class WaitDistribution:
    """Distribution of the wait over steps.

    With several steps per execution, the wait of a step is the mean of its execution.

    Attributes:
        median_s: Wait that half of the steps did not exceed, accurate to 5 %.
        p95_s: Wait that 95 % of the steps did not exceed, accurate to 5 %.
        stalled_fraction: Share of stalled steps: those that waited for at least a tenth of their
            time and at least 0.25 ms.
        burst_period_steps: Mean distance from the start of one burst to the next, in steps; None
            unless bursts come regularly: the standard deviation of the distances is at most a
            quarter of their mean. A burst is one stalled step, or several in a row.
    """

    median_s: float
    p95_s: float
    worst_s: float
    stalled_fraction: float
    burst_period_steps: float | None = None


@dataclass(frozen=True)
class PipelineStartRecord:
    """Wait for the first batch of an epoch, which is not in the steps' wait.

    Attributes:
        epochs: Number of epochs whose start was measured. The first epoch of a run is not measured,
            since its first step may trace.
        shuffle_s: Part of the mean wait that filled shuffle buffers, estimated from the share of
            the elements drawn until then that stayed in a buffer.
    """

    epochs: int
    mean_s: float
    shuffle_s: float | None = None
    longest_s: tuple[float, ...] = ()


_ROUNDING = 1e-9
"""Smaller shares of the wall time are rounding errors in the sums of the parts."""


OWN_WORK = "keras_gpukit"
"""Name of this package's own work among the callbacks of a run."""

RetraceCause = Literal["Python value", "shape", "dtype", "made again"]


@dataclass(frozen=True)
class RetracedFunction:
    """A `tf.function` of user code that was traced more than once during a call.

    Attributes:
        spent_s: Seconds of the calls that traced it, from the start of the tracing on.
        cause: Most frequent difference between one tracing and the next: a Python value of an
            argument, the shape or dtype of one, or the `tf.function` itself, which was made again.
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


TimePart = Literal[
    "compute",
    "input",
    "epoch_starts",
    "first_step",
    "tracing_again",
    "hangs",
    "validation",
    "callbacks",
    "other",
    "unknown",
]
TIME_PARTS: dict[TimePart, str] = {
    "compute": "compute",
    "input": "input",
    "epoch_starts": "epoch starts",
    "first_step": "the first step",
    "tracing_again": "tracing again",
    "hangs": "hangs",
    "validation": "validation",
    "callbacks": "callbacks",
    "other": "other",
    "unknown": "unknown",
}
"""Words for the parts of a call's wall time."""


@dataclass(frozen=True)
class TimeBreakdown:
    """Wall time of a phase by part. Together with `unknown_s`, the parts add up to the whole.

    Attributes:
        compute_s: Seconds of the step function without its input wait.
        callbacks_s: Seconds in callbacks of all kinds, including checkpoints: between steps,
            together with Keras' own loop, and between epochs.
        epoch_start_s: Seconds to start the pipeline of each epoch, including its first batch, and
            to find its end.
        validation_s: Seconds of validations within `fit`, with what Keras does after them in that
            epoch, such as freeing their pipeline.
        other_s: Seconds of Keras' own work at the end of an epoch, and of callbacks there that are
            listed before the one that shows this.
        tracing_s: Seconds for which later steps were traced or compiled again: those of epochs'
            first steps whose step function was made again, including their batch, those of steps
            for a batch of another shape, and those for which XLA compiled within other steps.
        tracings_of_shapes: Those of `tracings` for a batch of another shape.
        compilations: Number of programs that XLA compiled in steps after the first, such as for a
            new shape of the batch, without those of `tracings`. Those of validations count except
            for one. All of this process count.
        hangs_s: Seconds in which no step ended for a minute or more and the process waited.
        by_callback: Seconds of each class of callbacks; under `OWN_WORK`, those of this package
            before and after the callbacks of an epoch.
        callbacks_at_epochs: Seconds of `by_callback` at the start and the end of epochs.
        callbacks_by_thirds: Seconds per epoch of each class at the start and the end of epochs, in
            the first and in the last third of the epochs; empty before the third epoch.
        retraced: Functions of user code that were traced more than once, such as in eager steps or
            callbacks. The parts above contain their time.
        longest_restarts_s: The five longest intervals of `epoch_start_s` without the wait for a
            first batch, the longest first: TensorFlow then frees an iterator and makes another, or
            finds the end of the data.
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
    tracings_of_shapes: int = 0
    compilations: int | None = None
    compiling_s: float | None = None
    hangs_s: float = 0.0
    by_callback: dict[str, float] = field(default_factory=dict)
    callbacks_at_epochs: dict[str, float] = field(default_factory=dict)
    callbacks_by_thirds: dict[str, tuple[float, float]] = field(default_factory=dict)
    retraced: tuple[RetracedFunction, ...] | None = ()
    longest_restarts_s: tuple[float, ...] = ()

    @property
    def unknown_s(self) -> float:
        """Seconds that none of the parts accounts for, such as steps whose wait is unknown."""
        unknown_s = self.wall_s - sum(filter(None, self.parts.values()))
        return unknown_s if unknown_s > _ROUNDING * self.wall_s else 0.0

    @property
    def parts(self) -> dict[TimePart, float | None]:
        """Seconds of the parts; `TIME_PARTS` has their words."""
        return {
            "compute": self.compute_s,
            "input": self.input_s,
            "epoch_starts": self.epoch_start_s,
            "first_step": self.first_step_s,
            "tracing_again": self.tracing_s,
            "hangs": self.hangs_s,
            "validation": self.validation_s,
            "callbacks": self.callbacks_s,
            "other": self.other_s,
        }


@dataclass(frozen=True)
class InputRecord:
    """Time that steps were blocked on their next batch.

    Attributes:
        confidence: "exact"; "sampled" if several steps make one execution and the part of the wait
            that is hidden behind compute was taken from those steps that show it, or if batches are
            buffered on a GPU and their arrival is known from when the host handed them out, or if a
            profile corrected the figures; "upper bound" if part of the wait may be hidden behind
            compute. A sampled wait of several steps per execution is the lower end of a range, and
            the figures below are those of that end.
        later_stall_fraction: Wait as a share of the step time without the first epoch, in which a
            cache may fill; None if the run had one epoch.
        live_stall_fraction: Share that was measured during the run, if a profile of some of its
            steps refuted it: all figures here are then corrected by the profile.
        breakdown: Wall time by part, for calls of `fit` and `evaluate`; None for a validation.
        most_stall_fraction: Upper end of the range of `stall_fraction`; None unless the wait is
            sampled from several steps per execution.
        open_shapes: Shapes of the batch's tensors that vary in more than the number of examples, as
            the dataset describes them, such as "(None, None, 8)". None also outside `fit`.
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
        epoch: Current epoch, counted from 1; None before the first one and outside `fit`.
    """

    phase: Phase
    part: Part
    step: int
    epoch: int | None = None
    epochs: int | None = None
    epoch_steps: int | None = None
