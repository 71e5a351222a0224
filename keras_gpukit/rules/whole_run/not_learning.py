"""Whether training does nothing, or less than was asked: losses, weights, and epochs cut short."""

from __future__ import annotations

from keras_gpukit.records.event import Learning, NonFinite
from keras_gpukit.records.finding import Figure
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Measure, Outcome, Rule

LEAST_STEPS = 10
"""Fewest updates due before weights are called unchanged. Our choice: loss scaling may skip a few
of the first ones, and gradients of a single batch may be 0."""
LEAST_EPOCHS = 3
"""Fewest epochs of a loss that is called constant. Our choice."""
CONSTANT = 1e-6
"""Largest difference between the losses of epochs, relative to the loss, that counts as none. Our
choice: the order of a sum changes the seventh digit of a float32."""
MANY_SKIPPED, SKIPPED_FRACTION = 30, 0.2
"""Number and share of skipped updates that are reported. Our choice: the default loss scale of
32,768 is halved at most about 20 times at the start; a healthy run then skips one in 2,000."""
MANY_MISSING = 0.05
"""Share of missing steps from which that comes before all findings on speed. Our choice: a length
that was rounded up lacks one step of many."""
NEARLY_ALL = 0.9
"""Share of skipped updates from which nothing is learnt. Our choice."""

FLOAT16 = (
    'Give layers that divide, take a root, log or exp `dtype="float32"`, or raise their epsilon to '
    "1e-4: in float16, 1e-8 is 0 and the largest number is 65,504",
    'For comparison, train with `keras.mixed_precision.set_global_policy("float32")`',
)
ROWS = "Check the data, here and for y: `np.isfinite(x).all()`, `x.min()`, `x.max()`"
SAFE = (
    "Keep logs and divisions from 0: `keras.ops.log(p + 1e-7)`, `keras.ops.divide_no_nan(a, b)`; "
    "`from_logits=True` instead of a softmax before the loss"
)
RATE = (
    "Lower the learning rate to a tenth, or clip gradients: `keras.optimizers.Adam(1e-4, "
    "clipnorm=1)`"
)
FIRST_LAYER = (
    "Find the first bad layer with a new model and one batch: `for l in model.layers: l.call = "
    "(lambda f, n: lambda *a, **k: tf.debugging.check_numerics(f(*a, **k), n))(l.call, l.name)`; "
    "then `model(batch)`"
)
CHECKS = (
    "If every layer's output is finite, a gradient is not: call `tf.debugging."
    "enable_check_numerics()` first and `compile(jit_compile=False)`, for a short run"
)


class LearningRule(Rule):
    """A rule on whether training learns, which comes before anything on speed."""

    comes_first = "if critical"
    charts = ()
    skipped_of = Measure("Loss scaling skipped {value} of {of}")
    loss_scale_at_the_end = Measure("The loss scale is {value} at the end")


class LossNotFinite(LearningRule):
    """A loss that is NaN or infinite, and has not recovered."""

    code = "loss-not-finite"
    title = "The loss is not finite"
    requires = "the losses that Keras gives to callbacks"

    def judge(self, summary: RunSummary) -> Outcome:
        known = summary.learning
        if known is None:
            return self.abstain()
        bad = known.non_finite
        if bad is None:
            return None
        if bad.name.startswith("val_"):
            title = f"The validation loss is {bad.value} {_since(bad)}, the training loss is not"
            return self.find("warning", advice=(ROWS, SAFE), title=title)
        name = "loss" if bad.name == "loss" else f"loss {bad.name!r}"
        if known.finite is False:
            nothing = "weights are not finite: nothing is learnt"
            title = f"The {name} is {bad.value} {_since(bad)}, and {nothing}"
        else:  # later steps of an epoch may be fine, but Keras' mean over them is not
            nothing = ": nothing is learnt" if _skips(known, NEARLY_ALL) else ""
            title = f"The {name} of each epoch is {bad.value} {_since(bad)}{nothing}"
        return self.find("critical", *_figures(known), advice=_advice(summary, bad), title=title)


class NotLearning(LearningRule):
    """Weights that do not change, a constant loss, or loss scaling that skips updates."""

    code = "not-learning"
    title = "The weights do not change"
    requires = "weights that were read after two epochs or more, or after 10 steps"

    def judge(self, summary: RunSummary) -> Outcome:
        known = summary.learning
        if known is None:
            return self.abstain()
        if known.non_finite is not None and not known.non_finite.name.startswith("val_"):
            return self.abstain("the loss is not finite")
        constant = _constant_loss(known)
        due = known.updates_due
        is_unchanged = known.changed is False and due >= LEAST_STEPS
        if is_unchanged and (cause := _cause(known, constant)) is not None:
            why, advice = cause
            title = f"No weight has changed in {known.steps:,} steps: {why}"
        elif constant:
            title = f"The loss is {constant:.4g} after each of {known.epochs:,} epochs"
            advice = _ZERO_GRADIENTS
        elif _skips(known, SKIPPED_FRACTION):
            title = f"Loss scaling skipped {known.skipped:,} of {due:,} updates"
            advice = (*FLOAT16, FIRST_LAYER, CHECKS)
        else:
            return None if known.changed else self.abstain()
        return self.find("critical", *_figures(known), advice=advice, title=title)


class DataRanOut(Rule):
    """Epochs that ended before their number of steps, since the data had."""

    code = "data-ran-out"
    title = "Epochs ended early, since the data ran out"
    requires = "the number of steps that an epoch should have"
    charts = ()
    comes_first = "if critical"

    def judge(self, summary: RunSummary) -> Outcome:
        known = summary.learning
        if known is None or known.steps_asked is None or not known.epochs:
            return self.abstain()
        if not known.cut_short:
            return None
        asked = known.epochs * known.steps_asked
        title = (
            f"{known.cut_short:,} of {known.epochs:,} epochs ended early, since the data ran out: "
            f"{asked - known.steps_missing:,} of {asked:,} steps ran"
        )
        severe = known.steps_missing >= MANY_MISSING * asked
        return self.find("critical" if severe else "info", title=title, advice=_MORE_DATA)


_MORE_DATA = (
    "`ds.repeat()`, if epochs of `steps_per_epoch` steps are wanted",
    "Or leave `steps_per_epoch` out: an epoch is then one pass over the data",
)
_ZERO_GRADIENTS = (
    'Check the last layer: `Dense(1, activation="softmax")` is always 1, use "sigmoid"; a "relu" '
    "whose input is negative is always 0",
    "Look for what stops gradients between weights and loss: stop_gradient, argmax, round, casts, "
    "`.numpy()`",
)


def _cause(known: Learning, constant: float | None) -> tuple[str, tuple[str, ...]] | None:
    """Returns why weights do not change, and what to do; None if nothing confirms that."""
    if known.trainable == 0:
        return "none is trainable", (
            "Make layers trainable, then compile again: `for l in model.layers[-3:]: l.trainable = "
            "True`; `model.compile(...)`",
        )
    if known.skipped is not None and known.skipped >= LEAST_STEPS and known.updates == 0:
        return "loss scaling skipped every update", (*FLOAT16, FIRST_LAYER, CHECKS)
    if known.updates == 0:
        return "the optimizer applied no update", (
            "Call `self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))` in "
            "train_step",
        )
    if known.learning_rate == 0:
        return "the learning rate is 0", (
            "Compile with a learning rate: `model.compile(keras.optimizers.Adam(1e-3), ...)`",
            "Look for a schedule or a callback that sets it to 0",
        )
    if constant is not None or known.read == known.trainable:
        return "every gradient is 0", _ZERO_GRADIENTS
    return None


def _constant_loss(known: Learning) -> float | None:
    """Returns the loss if it is the same after all epochs; None otherwise.

    A loss of 0 counts only if no weight changes: a train_step of one's own may leave it unset.
    """
    lowest, highest = known.lowest_loss, known.highest_loss
    if lowest is None or highest is None or known.epochs < LEAST_EPOCHS:
        return None
    is_unset = highest == 0 and known.changed is not False
    return None if is_unset or highest - lowest > CONSTANT * abs(highest) else highest


def _figures(known: Learning) -> list[Figure]:
    if not known.skipped or known.loss_scale is None:
        return []
    due = f"{known.updates_due:,} updates"
    return [
        LearningRule.skipped_of(known.skipped, due),
        LearningRule.loss_scale_at_the_end(known.loss_scale),
    ]


def _skips(known: Learning, fraction: float) -> bool:
    """Whether loss scaling skipped at least a share of the updates."""
    skipped = known.skipped or 0
    return skipped >= MANY_SKIPPED and skipped >= fraction * known.updates_due


def _since(bad: NonFinite) -> str:
    if bad.first_step is None or bad.last_step is None:
        return f"since epoch {bad.epoch:,}"
    if bad.first_step == bad.last_step:
        return f"since step {bad.last_step:,} (epoch {bad.epoch:,})"
    return f"since one of steps {bad.first_step:,} to {bad.last_step:,} (epoch {bad.epoch:,})"


def _advice(summary: RunSummary, bad: NonFinite) -> tuple[str, ...]:
    """Returns what to do: the likeliest cause first, then how to find the place."""
    half = FLOAT16 if "float16" in (summary.environment.precision or "").split("_") else ()
    # The first epoch meets rows that no step has seen before; later ones do not.
    causes = (ROWS, SAFE, RATE) if bad.epoch == 1 else (RATE, ROWS, SAFE)
    return (*half, *causes, FIRST_LAYER, CHECKS)
