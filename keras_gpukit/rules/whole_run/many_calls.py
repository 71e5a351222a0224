"""Whether a script spends its time on starting calls of `fit`, `evaluate` or `predict`."""

from __future__ import annotations

from keras_gpukit.records.finding import Finding, Saving
from keras_gpukit.records.script import Calls, ScriptRecord
from keras_gpukit.rules.rule import Measure, ScriptRule, seconds
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION

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


class ManyShortCalls(ScriptRule):
    """A script whose calls of `fit`, `evaluate` or `predict` take long to start."""

    code = "many-short-calls"
    title = "Starting calls takes much of the script's time"
    requires = "the calls of a whole script, as `keras-gpukit run` sees them"
    supersedes = ("low-compute-share: the first step",)
    comes_first = "always"
    calls = Measure("There are {value} calls")
    of_each_to_start = Measure(", each takes {value} to start", "s")
    of_each_in_all = Measure(", {value} in all", "s")

    def judge_script(self, script: ScriptRecord) -> Finding | None:
        causes = [_tracing(script), _repeating(script)]
        found = [each for each in causes if each is not None]
        if not found:
            return None
        (calls, saving, title, advice) = max(found, key=lambda each: each[1].expected_s)
        share = saving.low_s / max(script.wall_s - script.imports_s, saving.low_s)
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


_Cause = tuple[Calls, Saving, str, tuple[str, ...]]


def _tracing(record: ScriptRecord) -> _Cause | None:
    """Returns what tracing again costs: at least the processor time of the first batches."""
    again = [each for each in record.calls if each.traced_again >= MANY]
    if not again:
        return None
    most = max(again, key=lambda each: each.traced_again_s)
    low_s = sum(each.tracing_cpu_s for each in again)
    high_s = sum(each.traced_again_s for each in again)
    new_models = most.models > most.traced_again / 2
    building_s = min(record.rest_s, high_s) if new_models else 0.0
    by = _named(most) if len(again) == 1 else f"{_named(most)} and others"
    after = f", each after compile ({most.compiled})" if most.compiled else ""
    what = (
        f"{most.models:,} new models were traced by {by}"
        if new_models
        else f"The step was traced again by {most.traced_again:,} calls of {by}{after}"
    )
    return (
        most,
        Saving(
            min(low_s, high_s),
            min(BUILDING * high_s + building_s, record.wall_s),
            record.wall_s,
            "tracing again",
        ),
        f"{what}: {seconds(high_s)} of {seconds(record.wall_s)} s",
        NEW_MODELS if new_models else COMPILED_AGAIN,
    )


def _repeating(record: ScriptRecord) -> _Cause | None:
    """Returns what calls cost apart from their batches, and from tracing."""
    many = [
        each
        for each in record.calls
        if each.count >= MANY_REPEATS and each.method in _advice(each) and each.repeated_s
    ]
    if not many:
        return None
    most = max(many, key=lambda each: each.repeated_s)
    low_s, high_s = (
        sum(SAVED[_is_single(each)][end] * each.repeated_s for each in many) for end in (0, 1)
    )
    spent_s = sum(each.repeated_s for each in many)
    each = " for one batch each" if _is_single(most) else ""
    return (
        most,
        Saving(low_s, min(high_s, record.wall_s), record.wall_s, "starts of calls"),
        f"{most.count:,} calls of {_named(most)}{each}: {seconds(spent_s)} of "
        f"{seconds(record.wall_s)} s went to starting them",
        _advice(most)[most.method],
    )


def _is_single(calls: Calls) -> bool:
    return calls.batches is not None and calls.batches <= FEW_BATCHES * calls.count


def _advice(calls: Calls) -> dict[str, tuple[str, ...]]:
    return ONE_BATCH if _is_single(calls) else MORE_BATCHES


def _named(calls: Calls) -> str:
    return f"{calls.method} ({calls.place})"
