"""Advice on callbacks that take long."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import seconds

TENSORBOARD = "TensorBoard"
TENSORBOARD_DEFAULTS = {
    "histogram_freq": 0,
    "write_images": False,
    "embeddings_freq": 0,
    "update_freq": "epoch",
    "profile_batch": 0,
}
"""Arguments of Keras' callback that take time, at epochs' ends or between steps, and defaults."""
_BETWEEN_STEPS = ("update_freq", "profile_batch")
_NOTABLE = 0.1
_CHECKPOINT = "`keras.callbacks.ModelCheckpoint`: save less often, or only the weights"
_DEFAULT = "`keras.callbacks.TensorBoard`: a log_dir on a local disk, and `write_graph=False`"
_OWN = "in your own callbacks, do work every hundredth batch, not in each"


def callback_advice(summary: RunSummary, name: str | None) -> tuple[str, ...]:
    """Returns what to change, the most rewarding change first.

    Args:
        summary: The run.
        name: Class of the callback that takes most of the time; None if none does.
    """
    known = {
        TENSORBOARD: (_tensorboard_advice(summary),),
        "ModelCheckpoint": (_CHECKPOINT,),
    }
    if name is None:
        by_callback = summary.breakdown.by_callback if summary.breakdown else {}
        seen = [line for each in known if each in by_callback for line in known[each]]
        return (*seen, _OWN)
    return known.get(name, (f"{name}: work less often, as every hundredth batch or tenth epoch",))


def as_written(summary: RunSummary, name: str) -> str:
    """Returns a callback's name; that of `TensorBoard` with the arguments that take its time."""
    if name != TENSORBOARD or not (costs_s := _tensorboard_costs_s(summary)):
        return name
    written = (summary.environment.settings[f"{name}.{each}"] for each in costs_s)
    return f"{name}({', '.join(written)})"


def _tensorboard_costs_s(summary: RunSummary) -> dict[str, float]:
    """Returns the arguments that take a tenth of its time or more, the costliest moment first.

    Arguments that work at the same moment share its seconds.
    """
    parts = summary.breakdown
    spent_s = parts.by_callback.get(TENSORBOARD, 0.0) if parts else 0.0
    at_epochs_s = parts.callbacks_at_epochs.get(TENSORBOARD, 0.0) if parts else 0.0
    costs_s = {
        each: spent_s - at_epochs_s if each in _BETWEEN_STEPS else at_epochs_s
        for each in TENSORBOARD_DEFAULTS
        if f"{TENSORBOARD}.{each}" in summary.environment.settings
    }
    costly = (each for each in costs_s.items() if each[1] >= _NOTABLE * spent_s)
    return dict(sorted(costly, key=lambda each: -each[1]))


def _tensorboard_advice(summary: RunSummary) -> str:
    costs_s = _tensorboard_costs_s(summary)
    if not costs_s:
        return _DEFAULT
    less = ", ".join(f"{each}={TENSORBOARD_DEFAULTS[each]!r}" for each in costs_s)
    moments = {
        "between steps" if each in _BETWEEN_STEPS else "at epochs' ends": spent_s
        for each, spent_s in costs_s.items()
    }
    took = ", ".join(f"{seconds(spent_s)} s {moment}" for moment, spent_s in moments.items())
    return f"`{TENSORBOARD}({less})`, or less often: it took {took}"
