"""Advice on callbacks that take long."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TimeBreakdown

TENSORBOARD = "TensorBoard"
TENSORBOARD_DEFAULTS = {
    "histogram_freq": 0,
    "write_images": False,
    "embeddings_freq": 0,
    "update_freq": "epoch",
    "profile_batch": 0,
}
"""Arguments of Keras' callback that take time, and their defaults; at epochs' ends, then between
steps."""
_BETWEEN_STEPS = ("update_freq", "profile_batch")
_LESS = {
    "histogram_freq": "TensorBoard(histogram_freq=0), or 10: each histogram is of all weights",
    "write_images": "TensorBoard(write_images=False): images of weights take long to draw",
    "embeddings_freq": "TensorBoard(embeddings_freq=0): a checkpoint of the whole model each time",
    "update_freq": 'TensorBoard(update_freq="epoch"), or 1000: it writes every metric each time',
    "profile_batch": "TensorBoard(profile_batch=0): a profile takes long to write",
}
_MOSTLY = 0.5
_CHECKPOINT = "keras.callbacks.ModelCheckpoint: save less often, or only the weights"
_DEFAULT = "keras.callbacks.TensorBoard: a log_dir on a local disk, and write_graph=False"
_OWN = "in your own callbacks, do work every hundredth batch, not in each"


def callback_advice(summary: RunSummary, name: str | None) -> tuple[str, ...]:
    """Returns what to change, the most rewarding change first.

    Args:
        summary: The run.
        name: Class of the callback that takes most of the time; None if none does.
    """
    known = {
        TENSORBOARD: tuple(_LESS[each] for each in tensorboard_arguments(summary)) or (_DEFAULT,),
        "ModelCheckpoint": (_CHECKPOINT,),
    }
    if name is None:
        by_callback = summary.breakdown.by_callback if summary.breakdown else {}
        seen = [line for each in known if each in by_callback for line in known[each]]
        return (*seen, _OWN)
    return known.get(name, (f"{name}: work less often, as every hundredth batch or tenth epoch",))


def tensorboard_arguments(summary: RunSummary) -> list[str]:
    """Returns the arguments of `TensorBoard` that take time, those of the costlier moment first."""
    parts = summary.breakdown
    given = [each for each in _LESS if f"{TENSORBOARD}.{each}" in summary.environment.settings]
    at_epochs = parts is not None and _mostly_at_epochs(parts)
    return sorted(given, key=lambda each: (each in _BETWEEN_STEPS) == at_epochs)


def _mostly_at_epochs(parts: TimeBreakdown) -> bool:
    spent_s = parts.by_callback.get(TENSORBOARD, 0.0)
    return parts.callbacks_at_epochs.get(TENSORBOARD, 0.0) >= _MOSTLY * spent_s
