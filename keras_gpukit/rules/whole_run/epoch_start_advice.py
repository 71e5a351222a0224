"""Advice on epochs that take long to start, by the kind of input that `fit` was given."""

from __future__ import annotations

from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.input.contention import GIL_WAIT_S
from keras_gpukit.rules.input.library_advice import PERSISTENT
from keras_gpukit.rules.input.python_advice import PY_DATASET, WHOLE_BATCH

ARRAYS = "Keras' own "
"""Prefix of the names of stages that Keras creates for arrays."""
SLOW_ONES = (
    "look for what else happened then: a cache that was filled, files read for the first time, "
    "other work on the machine. Other epochs started fast"
)
_LONGER_EPOCHS = "fewer and longer epochs: a start takes as long, however many steps follow it"
_ONE_PIPELINE = "ds.repeat() and fit(steps_per_epoch=...): one pipeline for all epochs"
_FROM_ARRAYS = (
    "instead of arrays, ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(n), "
    "then ds.repeat() and fit(steps_per_epoch=...): one pipeline for all epochs"
)
_AHEAD = (
    "ds.repeat().prefetch(tf.data.AUTOTUNE) and fit(steps_per_epoch=...): the next epoch's first "
    "batches are made while steps run"
)
# Each pass repeats such work, even in a pipeline with `repeat()`.
_ONCE = (
    "do once, before fit, what the pipeline does before its first batch: list files, open them, "
    "build an index"
)


def starts_advice(record: InputRecord | None, *, waits_first: bool) -> tuple[str, ...]:
    """Returns what to change, the most rewarding change first.

    Args:
        record: Record of the input; None if unknown.
        waits_first: Whether most of an epoch's start is the wait for its first batch.
    """
    python = record.python if record else None
    if python is not None and python.library != "Keras":
        return (*((PERSISTENT,) if python.restarts_workers else ()), _LONGER_EPOCHS)
    if python is not None and python.name.endswith(PY_DATASET):
        dataset = python.name.removesuffix(PY_DATASET)
        contention = record.contention if record else None
        holds_gil = contention is not None and (contention.gil_wait_s or 0.0) >= GIL_WAIT_S
        return (
            *((f"have {python.name} {WHOLE_BATCH}",) if waits_first and holds_gil else ()),
            f"do once, in {dataset}.__init__, what comes before its first batch: list files, open "
            "them, build an index",
            _LONGER_EPOCHS,
        )
    stages = record.pipeline.stages if record and record.pipeline else ()
    if any(stage.name.startswith(ARRAYS) for stage in stages):
        return (_LONGER_EPOCHS, _FROM_ARRAYS) if waits_first else (_FROM_ARRAYS,)
    return (_ONCE, _AHEAD) if waits_first else (_ONE_PIPELINE,)
