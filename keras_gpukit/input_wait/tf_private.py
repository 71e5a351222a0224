"""TensorFlow's private names that the input wait is read through.

Seen on TensorFlow 2.21: `DistributedIterator._iterators`, their `_iterator`,
`OwnedMultiDeviceIterator._device_iterators`, `OwnedIterator._dataset` and `._iterator_resource`,
`DatasetV2._inputs` and `._variant_tensor`, `structure.get_flat_tensor_types` and `_shapes`, and
the kernels of `LatencyStatsDataset`. Where one is gone, the mechanism that needs it is not chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Stages that begin alike however often. A `PyDataset` with several workers needs the first three.
SAME_WHEN_MADE_ANEW = {
    "_OptionsDataset",
    "_FlatMapDataset",
    "_TensorDataset",
    "_TensorSliceDataset",
    "_RangeDataset",
    "_BatchDataset",
    "_ParallelBatchDataset",
    "_MapDataset",
    "_ParallelMapDataset",
    "_PrefetchDataset",
    "_RepeatDataset",
    "_TakeDataset",
}


def host_iterator(iterator: Any) -> Any:
    """Returns the `tf.data.Iterator` that feeds the first replica, or None.

    Under a mirrored strategy each replica has its own; they are filled in turn by one pipeline
    and wait alike.
    """
    import tensorflow as tf

    if isinstance(iterator, tf.data.Iterator):
        return iterator
    for worker in getattr(iterator, "_iterators", ()):
        inner = getattr(worker, "_iterator", None)
        if isinstance(inner, tf.data.Iterator):
            return inner
        for device in getattr(inner, "_device_iterators", ()):
            return device
    return None


def has_model(iterator: Any) -> bool:
    """Whether tf.data keeps a model of the pipeline: asking for one there is not logs a warning."""
    dataset = getattr(iterator, "_dataset", None)
    return dataset is None or dataset.options().autotune.enabled is not False


def time_fetches(iterator: Any) -> Callable[[], float]:
    """Makes an unused iterator anew with a stage on top that times its fetches.

    Returns:
        A function that returns the time all fetches took so far, in seconds.

    Raises:
        ValueError: If a stage draws random numbers when it is begun, or might: made anew, it would
            draw others.
        Exception: If the iterator is none that can be made anew.
    """
    import tensorflow as tf
    from tensorflow.python.data.util import structure

    dataset = iterator._dataset
    risky = set(_stage_names(dataset)) - SAME_WHEN_MADE_ANEW
    if risky:
        stages = ", ".join(sorted(risky))
        raise ValueError(
            f"the pipeline's autotuning is off, and begun anew it may differ ({stages})"
        )
    layout = {
        "output_types": structure.get_flat_tensor_types(dataset.element_spec),
        "output_shapes": structure.get_flat_tensor_shapes(dataset.element_spec),
    }
    totals = tf.raw_ops.StatsAggregatorHandle()
    timed = tf.raw_ops.LatencyStatsDataset(
        input_dataset=dataset._variant_tensor, tag="fetch", **layout
    )
    timed = tf.raw_ops.SetStatsAggregatorDataset(
        input_dataset=timed, stats_aggregator=totals, tag="", counter_prefix="", **layout
    )
    tf.raw_ops.MakeIterator(dataset=timed, iterator=iterator._iterator_resource)

    def total_s() -> float:
        serialized = tf.raw_ops.StatsAggregatorSummary(iterator=totals).numpy()
        summary = tf.compat.v1.Summary.FromString(serialized)
        # TensorFlow counts in microseconds; before the first fetch there is no entry.
        return float(sum(value.histo.sum for value in summary.value)) * 1e-6

    return total_s


def _stage_names(dataset: Any) -> list[str]:
    names = [type(dataset).__name__]
    for source in dataset._inputs():
        names += _stage_names(source)
    return names
