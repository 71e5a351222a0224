"""Whether steps are traced, or compiled by XLA, again and again."""

from __future__ import annotations

from keras_gpukit.records.finding import Saving
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.records.steps import RetraceCause, RetracedFunction, TimeBreakdown
from keras_gpukit.rules.rule import Measure, Outcome, Share, seconds, times
from keras_gpukit.rules.savings import CRITICAL_FRACTION, of_run, severity
from keras_gpukit.rules.whole_run.time_parts import NOTABLE_FRACTION, SlowCallbacks, TimeRule

WITHOUT_XLA = (
    "Or train without XLA, which compiles for each new shape: `compile(jit_compile=False)`"
)
DROP_REMAINDER = (
    "Leave out an epoch's smaller last batch: `ds.batch(n, drop_remainder=True)`, or pass to fit a "
    "number of examples that is a multiple of batch_size"
)
LAST_BATCH = (DROP_REMAINDER, WITHOUT_XLA)
RESIZE = ("Bring images to one size: `ds.map(lambda image, label: (tf.image.resize(image, (h, w)), "
          "label))` before `ds.batch`")  # fmt: skip
PAD = (
    "Pad axis {axes} of {shape} to one length: `ds.padded_batch(n, padded_shapes=({padded}, ...))`",
    "Where lengths differ much, pad to a few: `ds.bucket_by_sequence_length(length_of, [64, 128], "
    "[n, n, n], pad_to_bucket_boundary=True)`",
)
STEP_FUNCTION = (
    "No `model.compile` or `make_train_function` between epochs: keep a value that changes in a "
    "`keras.Variable`, which is read at each step"
)
RETRACED: dict[RetraceCause | None, tuple[str, str]] = {
    "Python value": (
        "for new values of {argument}",
        "Pass {argument} to {name} as a tensor: `tf.constant({argument})`. Each new Python value "
        "is traced",
    ),
    "shape": (
        "for new shapes of {argument}",
        "Let one graph serve all shapes of {argument}: `@tf.function(reduce_retracing=True)`",
    ),
    "dtype": ("for another dtype of {argument}", "Cast {argument} to one dtype before {name}"),
    "made again": (
        "as it is made again",
        "Decorate {name} with `tf.function` once, outside the loop or function that calls it",
    ),
    None: ("again", "Call {name} with tensors of the same shape and dtype each time"),
}
"""By cause: how the title goes on after "was traced 9 times", and the advice."""


class TracingAgain(TimeRule):
    """The share of the time that goes to tracing or compiling steps again during a run."""

    code = "retracing"
    title = "The step function was made and traced again"
    supersedes = ("low-compute-share: tracing again", "low-compute-share: callbacks")
    of_the_time = SlowCallbacks.of_the_time
    traced_again = Measure("The step was traced again {value}", "times")
    compiled_again_by_XLA = Measure("XLA compiled a program {value}", "times")
    per_compilation = Measure("One compilation takes {value}", "s")
    of_the_script = Share("This takes {value} of the script's time")

    def judge(self, summary: RunSummary) -> Outcome:
        script = summary.script
        if summary.breakdown is None and script is not None and script.retraced:
            return self._of_loop(script, script.retraced)
        return super().judge(summary)

    def _of_loop(self, script: ScriptRecord, retraced: tuple[RetracedFunction, ...]) -> Outcome:
        """Judges functions that a training loop of the script's own traced again."""
        again_s = sum(each.again_s for each in retraced)
        whole_s = max(script.wall_s - script.imports_s, again_s)
        if again_s < NOTABLE_FRACTION * whole_s:
            return None
        what, advice = _function(retraced[0])
        share = again_s / whole_s
        return self.find(
            "critical" if share >= CRITICAL_FRACTION else "warning",
            self.of_the_script(share),
            advice=advice,
            saving=Saving(again_s, None, script.wall_s, "tracing again"),
            title=f"{what}: {seconds(again_s)} s of {seconds(script.wall_s)} s",
        )

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        compiling_s = parts.compiling_s or 0.0
        made_s = parts.tracing_s - compiling_s
        retraced = parts.retraced or ()
        retraced_s = sum(each.again_s for each in retraced)
        again_s = parts.tracing_s + retraced_s
        if again_s < NOTABLE_FRACTION * parts.wall_s:
            return None
        padded_s = min(parts.compute_s or 0.0, compiling_s)
        work_s = parts.tracings * (summary.step_time_s or 0.0) if made_s > 0 else 0.0
        saving = of_run(
            summary,
            again_s - padded_s - work_s,
            # The more graphs a function has, the longer TensorFlow looks for the one to call.
            None if retraced_s else again_s,
            basis="tracing and compiling again",
        )
        took = f"{seconds(again_s)} s of {seconds(parts.wall_s)} s"
        figures = [self.of_the_time(again_s / parts.wall_s)]
        if parts.tracings:
            figures.append(self.traced_again(parts.tracings))
        if parts.compilations:
            figures.append(self.compiled_again_by_XLA(parts.compilations))
            figures.append(self.per_compilation(compiling_s / parts.compilations))
        if compiling_s >= max(made_s, retraced_s):
            what, advice = _shapes(summary, parts.compilations or 0)
        elif made_s >= retraced_s and parts.tracings_of_shapes == parts.tracings:
            again = f"The step was traced again {times(parts.tracings)}"
            what, advice = f"{again} for batches of another size", (DROP_REMAINDER,)
        elif made_s >= retraced_s:
            what, advice = f"{self.title} {parts.tracings} times", (STEP_FUNCTION,)
        else:
            what, advice = _function(retraced[0])
        return self.find(
            severity(saving, summary),
            *figures,
            advice=advice,
            saving=saving,
            title=f"{what}: {took}",
        )


def _shapes(summary: RunSummary, compilations: int) -> tuple[str, tuple[str, ...]]:
    """Returns what XLA compiled again, and the advice, from the shapes that vary."""
    shapes = summary.input.open_shapes if summary.input else None
    again = f"XLA compiled the step again {times(compilations)}"
    if shapes is None:
        return again, ("Give all batches the same shape", WITHOUT_XLA)
    if not shapes:
        return f"{again} for batches of another size", LAST_BATCH
    shape = shapes[0]
    lengths = shape.strip("()").split(", ")
    axes = [place for place, length in enumerate(lengths) if length == "None" and place]
    title = f"XLA compiled the step again for {compilations} new batch shapes {shape}"
    if len(lengths) == 4 and len(axes) > 1:
        return title, (RESIZE, WITHOUT_XLA)
    named = " and ".join(map(str, axes))
    padded = ", ".join(each.replace("None", "longest") for each in lengths[1:])
    words = {"axes": named, "shape": shape, "padded": f"({padded})"}
    return title, (*(each.format(**words) for each in PAD), WITHOUT_XLA)


def _function(function: RetracedFunction) -> tuple[str, tuple[str, ...]]:
    """Returns which function was traced again and why, and the advice."""
    why, advice = (
        each.format(name=function.name, argument=function.argument)
        for each in RETRACED[function.cause]
    )
    is_lambda = function.location in function.name
    named = function.name if is_lambda else f"{function.name} ({function.location})"
    return f"{named} was traced {function.times} times {why}", (advice,)
