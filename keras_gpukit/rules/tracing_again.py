"""Whether a run's step function is traced, or compiled by XLA, again and again."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.step_times import BIN_GROWTH, StepTimes
from keras_gpukit.records.steps import TimeBreakdown
from keras_gpukit.rules.rule import Outcome, percent
from keras_gpukit.rules.savings import of_run, severity
from keras_gpukit.rules.time_parts import MOSTLY, NOTABLE_FRACTION, REQUIRES, TimeRule

QUICK_SHARE = 0.05
"""Share of the steps that count as quick: those that XLA did not compile again. Our choice."""
COMPILED_TIMES = 10
"""A step that takes this many times as long as the quick ones may have been compiled. Our choice:
for a small model on a CPU, compiling took 100 times as long as a step."""
SHORTEST_S = 0.1
"""Shortest step that counts as compiled. Our choice: XLA takes longer than this even for a model
of a few layers."""
SHAPES = (
    "pad to few lengths: padded_batch(padded_shapes=...), or bucket_by_sequence_length with "
    "pad_to_bucket_boundary=True",
    "model.compile(jit_compile=False): without XLA, a new shape needs no compilation",
)
STEP_FUNCTION = (
    "no model.compile or make_train_function between epochs: keep a value that changes in a "
    "keras.Variable, which is read at each step"
)


class TracingAgain(TimeRule):
    """The share of the time that goes to tracing or compiling the step again during a run.

    TensorFlow traces a step function that is created again; this is checked at the start of epochs.
    XLA compiles the step for each new shape of a batch, without tracing it again. TensorFlow 2.21
    gives Python no count of these compilations, so they are inferred, and the finding says
    "likely": the dataset says that shapes vary, XLA is on, and some steps take ten times as long as
    the quickest twentieth, neither waiting for input nor in callbacks. The threshold of a tenth of
    the time is our choice, as for other waits.
    """

    code = "tracing-again"
    subject = "tracing"
    title = "The step function is made and traced again"
    requires = REQUIRES

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        """Compares the share with the threshold."""
        times, (compiled, compiled_s) = _step_times(summary), _compiled_again(summary, parts)
        share = (parts.tracing_s + compiled_s) / parts.wall_s
        if share < NOTABLE_FRACTION:
            return None
        # A step that is traced or compiled also does the normal work of a step.
        usual_s = times.quantile_s(QUICK_SHARE) if times and compiled else 0.0
        work_s = parts.tracings * (summary.step_time_s or 0.0) + compiled * usual_s
        again_s = parts.tracing_s + compiled_s
        most_s = parts.tracing_s + BIN_GROWTH * compiled_s
        saving = of_run(summary, again_s - work_s, most_s, basis="traced or compiled steps")
        figures = [percent("of the time", share)]
        if parts.tracings:
            figures.append(Figure("traced again", parts.tracings, "times"))
        if compiled:
            figures.append(Figure("likely compiled again", compiled, "times"))
            figures.append(Figure("mean of these steps", compiled_s / compiled, "s"))
            figures.append(Figure("quick steps", usual_s, "s"))
        mainly_shapes = compiled_s > parts.tracing_s
        return self.find(
            severity(saving, summary),
            *figures,
            advice=SHAPES if mainly_shapes else (STEP_FUNCTION,),
            saving=saving,
            title=_title(summary) if mainly_shapes else None,
        )


def _title(summary: RunSummary) -> str:
    shapes = ", ".join(summary.input.open_shapes) if summary.input else ""
    return f"XLA likely compiles the step again for new shapes of batches: {shapes}"


def _step_times(summary: RunSummary) -> StepTimes | None:
    return None if summary.throughput is None else summary.throughput.step_times


def _compiled_again(summary: RunSummary, parts: TimeBreakdown) -> tuple[int, float]:
    """Returns the number of steps that XLA likely compiled again, and their time in seconds.

    Both are 0 if there is no evidence.
    """
    times, record = _step_times(summary), summary.input
    varies = record is not None and bool(record.open_shapes)
    if times is None or parts.compute_s is None or not (varies and summary.environment.jit_compile):
        return 0, 0.0
    shortest_s = max(COMPILED_TIMES * times.quantile_s(QUICK_SHARE), SHORTEST_S)
    count, slow_s = times.since(shortest_s)
    slowest = [each for each in times.slowest if each.duration_s >= shortest_s]
    waited = [each.wait_s is None or each.wait_s > MOSTLY * each.duration_s for each in slowest]
    # A step's time includes callbacks after it, which are no part of the time for compute.
    _, all_s = times.since(0.0)
    if any(waited) or parts.compute_s - (all_s - slow_s) < MOSTLY * slow_s:
        return 0, 0.0
    return count, slow_s
