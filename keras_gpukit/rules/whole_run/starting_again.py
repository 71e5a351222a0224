"""Whether calls start, or steps are traced, again and again; and what each costs."""

from __future__ import annotations

from keras_gpukit.records.finding import Finding, Saving
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import Calls, ScriptRecord
from keras_gpukit.records.steps import RetraceCause, RetracedFunction, TimeBreakdown
from keras_gpukit.rules.input.python_advice import PY_DATASET
from keras_gpukit.rules.rule import Measure, Outcome, ScriptRule, Share, seconds, times
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION, of_run, severity
from keras_gpukit.rules.whole_run.between_epochs import LONG_VALIDATION_FRACTION
from keras_gpukit.rules.whole_run.time_parts import NOTABLE_FRACTION, SlowCallbacks, TimeRule

MANY = 5
"""Least number of calls that trace again. Our choice: a script that trains in a few phases, such as
a frozen model that is then fine-tuned, has fewer."""
MANY_REPEATS = 30
"""Least number of calls that repeat a start. Our choice: folds or trials that reuse a model, which
has to be started for each, are fewer."""
SAVED = {True: (0.8, 1.1), False: (0.4, 1.0)}
"""Range of what is saved of the time around the batches: of calls for one batch, and of others. Our
choice: a small model on two busy cores saved 1.03 of it by `train_on_batch`, 1.05 by
`predict_on_batch`, whose batch needs no iterator, and 0.6 by one `fit` of many epochs, which still
makes an iterator for each."""
BUILDING = 1.1
"""Most that is saved of the starts that trace. Our choice: it was 1.04 with a small recurrent
network. Up to as much of the time between calls is saved in addition, since models are made then:
nine models of three million weights saved 5.3 s of processor time, where starts took 4.1 s."""
LEAST_S = 1.0
"""Shortest saving that is worth a finding; our choice."""
FEW_BATCHES = 1.5
"""Calls with at most this many batches on average are calls for one batch. Our choice."""

NEW_MODELS = (
    "build and compile one model before the loop, and reset it in each round: `weights = "
    "model.get_weights()` once, then `model.set_weights(weights)`",
    "reset its optimizer, too: `model.optimizer.build(model.trainable_variables)` and "
    "`model.optimizer.save_own_variables(state)` once, with state = {}, then "
    "`model.optimizer.load_own_variables(state)`",
    "if models differ in a value, such as the learning rate, assign it: "
    "`model.optimizer.learning_rate.assign(1e-3)`. If their layers differ, each has to be traced: "
    "try fewer of them, or several in processes side by side",
)
COMPILED_AGAIN = (
    "call `model.compile()` once, before the loop: each time, it discards the traced step, and a "
    "new optimizer starts without its moments",
    "to change a value between calls, assign it: `model.optimizer.learning_rate.assign(1e-3)`",
)
ONE_BATCH = {
    "fit": ("`model.train_on_batch(x, y)` for one batch, without an iterator and callbacks",),
    "evaluate": ("`model.test_on_batch(x, y)` for one batch, without an iterator and callbacks",),
    "predict": (
        "predict once for all examples, if they are known at the same time",
        "`model.predict_on_batch(x)`, or `model(x, training=False)`, for a few examples",
    ),
}
MORE_BATCHES = {
    "fit": (
        "call fit once: `model.fit(..., epochs=N)`. What happens between calls goes into "
        "`on_epoch_end` of a `keras.callbacks.Callback`",
        "if data change between calls, use more of them in each call",
    ),
    "predict": ("predict for more examples in each call, with a larger batch_size",),
}


LESS_EVALUATION = (
    "`evaluate(..., batch_size=1024)`: without it, a batch has 32 examples; nothing is kept for "
    "gradients, so a larger one fits than in training",
    "evaluate less often, or a part of the data: `evaluate(..., steps=20)`",
    "of the training data, `fit` returns loss and metrics already: `history.history`",
)


class ManyShortCalls(ScriptRule):
    """A script whose calls of `fit`, `evaluate` or `predict` take long to start."""

    code = "many-short-calls"
    title = "Starting calls takes much of the script's time"
    requires = "the calls of a whole script, as `keras-gpukit run` sees them"
    supersedes = ("low-compute-share: first_step", "long-evaluation")
    comes_first = "always"
    calls = Measure("There are {value} calls")
    of_each_to_start = Measure(", each takes {value} to start", "s")
    of_each_in_all = Measure(", {value} in all", "s")

    def judge_script(self, script: ScriptRecord) -> Finding | None:
        found = list(filter(None, (_tracing(script), _repeating(script))))
        if not found:
            return None
        (calls, saving, title, advice) = max(found, key=lambda cause: cause[1].expected_s)
        share = script.share(saving.low_s)
        if saving.low_s < LEAST_S or share < WARNING_FRACTION:
            return None
        return self.find(
            "critical" if share >= CRITICAL_FRACTION else "warning",
            self.calls(calls.count),
            self.of_each_to_start((calls.starting_s or 0.0) / calls.count),
            self.of_each_in_all(calls.total_s / calls.count),
            advice=advice,
            saving=saving,
            title=title,
        )


class LongEvaluation(ScriptRule):
    """A script that trains, and whose calls of `evaluate` take a large part of its time."""

    code = "long-evaluation"
    title = "Evaluation takes a large part of the script's time"
    requires = ManyShortCalls.requires
    evaluations = Measure("There are {value} calls of evaluate")
    of_each = Measure(", each takes {value}", "s")

    def judge_script(self, script: ScriptRecord) -> Finding | None:
        calls = [call for call in script.calls if call.method == "evaluate"]
        count, spent_s = sum(call.count for call in calls), sum(call.total_s for call in calls)
        trains = any(call.method in ("fit", "train_on_batch") for call in script.calls)
        if not trains or count < MANY or script.share(spent_s) < LONG_VALIDATION_FRACTION:
            return None
        by = _first_named(calls, max(calls, key=lambda call: call.total_s))
        saving = Saving(
            0.0, spent_s * (1 - 1 / count), script.wall_s, "calls of evaluate", upper_bound=True
        )
        return self.find(
            "warning",
            self.evaluations(count),
            self.of_each(spent_s / count),
            advice=LESS_EVALUATION,
            saving=saving,
            title=f"{count:,} calls of {by} take {seconds(spent_s)} of {seconds(script.wall_s)} s",
        )


_Cause = tuple[Calls, Saving, str, tuple[str, ...]]


def _tracing(record: ScriptRecord) -> _Cause | None:
    """Returns what tracing again costs: at least the processor time of the first batches."""
    again = [call for call in record.calls if call.traced_again >= MANY]
    if not again:
        return None
    most = max(again, key=lambda call: call.traced_again_s)
    low_s = sum(call.tracing_cpu_s for call in again)
    high_s = sum(call.traced_again_s for call in again)
    by = _first_named(again, most)
    after = f", each after compile ({most.compiled})" if most.compiled else ""
    what = f"The step was traced again by {most.traced_again:,} calls of {by}{after}"
    advice: tuple[str, ...] = COMPILED_AGAIN
    building_s = 0.0
    if most.models > most.traced_again / 2:
        what, advice = f"{most.models:,} new models were traced by {by}", NEW_MODELS
        building_s = min(record.rest_s, high_s)
    most_s = min(BUILDING * high_s + building_s, record.wall_s)
    saving = Saving(min(low_s, high_s), most_s, record.wall_s, "tracing again")
    return most, saving, f"{what}: {seconds(high_s)} of {seconds(record.wall_s)} s", advice


def _repeating(record: ScriptRecord) -> _Cause | None:
    """Returns what calls cost apart from their batches, and from tracing."""
    many = [
        call
        for call in record.calls
        if call.count >= MANY_REPEATS and call.method in _advice(call) and call.repeated_s
    ]
    if not many:
        return None
    most = max(many, key=lambda call: call.repeated_s)
    low_s, high_s = (
        sum(SAVED[_is_single(call)][end] * call.repeated_s for call in many) for end in (0, 1)
    )
    spent_s = sum(call.repeated_s for call in many)
    one_batch = " for one batch each" if _is_single(most) else ""
    saving = Saving(low_s, min(high_s, record.wall_s), record.wall_s, "starts of calls")
    took = f"{seconds(spent_s)} of {seconds(record.wall_s)} s went to starting them"
    title = f"{most.count:,} calls of {_named(most)}{one_batch}: {took}"
    return most, saving, title, _advice(most)[most.method]


def _is_single(calls: Calls) -> bool:
    return calls.batches is not None and calls.batches <= FEW_BATCHES * calls.count


def _advice(calls: Calls) -> dict[str, tuple[str, ...]]:
    return ONE_BATCH if _is_single(calls) else MORE_BATCHES


def _named(calls: Calls) -> str:
    return f"{calls.method} ({calls.place})"


def _first_named(calls: list[Calls], most: Calls) -> str:
    return _named(most) if len(calls) == 1 else f"{_named(most)} and others"


WITHOUT_XLA = (
    "Or train without XLA, which compiles for each new shape: `compile(jit_compile=False)`"
)
DROP_REMAINDER = (
    "Leave out an epoch's smaller last batch: `ds.batch(n, drop_remainder=True)`, or pass to fit a "
    "number of examples that is a multiple of batch_size"
)
RESIZE = ("Bring images to one size: `ds.map(lambda image, label: (tf.image.resize(image, (h, w)), "
          "label))` before `ds.batch`")  # fmt: skip
PAD = (
    "Pad axis {axes} of {shape} to one length: `ds.padded_batch(n, padded_shapes=({padded}, ...))`",
    "Where lengths differ much, pad to a few: `ds.bucket_by_sequence_length(length_of, [64, 128], "
    "[n, n, n], pad_to_bucket_boundary=True)`",
)
PAD_IN_PYTHON = (
    "Pad axis {axes} in {name}{where} to few lengths, such as the next multiple of 32: each length "
    "is compiled once"
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
    supersedes = ("low-compute-share: tracing_again", "low-compute-share: callbacks")
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
        again_s = sum(function.again_s for function in retraced)
        share = script.share(again_s)
        if share < NOTABLE_FRACTION:
            return None
        what, advice = _function(retraced[0])
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
        retraced_s = sum(function.again_s for function in retraced)
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
            what, advice = f"{self.title} {times(parts.tracings)}", (STEP_FUNCTION,)
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
        return f"{again} for batches of another size", (DROP_REMAINDER, WITHOUT_XLA)
    shape = shapes[0]
    lengths = shape.strip("()").split(", ")
    axes = [place for place, length in enumerate(lengths) if length == "None" and place]
    new = f"{compilations} new batch shapes" if compilations > 1 else "a new batch shape"
    title = f"XLA compiled the step again for {new} {shape}"
    if len(lengths) == 4 and len(axes) > 1:
        return title, (RESIZE, WITHOUT_XLA)
    named = " and ".join(map(str, axes))
    padded = ", ".join(length.replace("None", "longest") for length in lengths[1:])
    words = {"axes": named, "shape": shape, "padded": f"({padded})"}
    source = summary.input.python if summary.input else None
    if source is not None and source.name.endswith(PY_DATASET):
        words |= {"name": source.name, "where": source.where}
        return title, (PAD_IN_PYTHON.format(**words), WITHOUT_XLA)
    return title, (*(line.format(**words) for line in PAD), WITHOUT_XLA)


def _function(function: RetracedFunction) -> tuple[str, tuple[str, ...]]:
    """Returns which function was traced again and why, and the advice."""
    why, advice = (
        text.format(name=function.name, argument=function.argument)
        for text in RETRACED[function.cause]
    )
    is_lambda = function.location in function.name
    named = function.name if is_lambda else f"{function.name} ({function.location})"
    return f"{named} was traced {function.times} times {why}", (advice,)
