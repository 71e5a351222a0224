"""TensorFlow's private names that the input wait is read through.

Seen on TensorFlow 2.21: `DistributedIterator._iterators` and what makes one anew, the workers'
`_iterator`, `OwnedMultiDeviceIterator._device_iterators`, `OwnedIterator._dataset`,
`DatasetV2._variant_tensor` and `._flat_structure`, `_OptionsDataset._input_dataset`,
`dataset_ops.UnaryUnchangedStructureDataset`, and the kernels of `LatencyStatsDataset`; on Keras
3.12 to 3.15 the module of its step functions.
Where one is gone, the mechanism that needs it is not chosen.
"""

from __future__ import annotations

from typing import Any

_FETCH_TIME = "gpukit_fetch_time"


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


def is_made_by_keras(step_function: Any) -> bool:
    """Whether a step function is the one that Keras makes, with nothing of others around it."""
    made_in = getattr(step_function, "__module__", "")
    return made_in == "keras.src.backend.tensorflow.trainer" and not hasattr(
        step_function, "__wrapped__"
    )


def empty_iterator(iterator: Any) -> Any:
    """Returns an iterator of the same type that has no data; none of the pipeline runs.

    Raises:
        Exception: If there is none.
    """
    workers = getattr(iterator, "_iterators", None)
    if workers is None:
        return iter(iterator._dataset.take(0))
    empty_workers = [
        type(worker)(worker._dataset.take(0), worker._worker, worker._devices, worker._options)
        for worker in workers
    ]
    empty = type(iterator)(
        iterator._input_workers,
        empty_workers,
        iterator._strategy,
        cardinality=iterator._cardinality,
        enable_get_next_as_optional=iterator._enable_get_next_as_optional,
    )
    empty._element_spec = iterator.element_spec
    return empty


def with_model(dataset: Any) -> Any:
    """Returns a dataset that Keras set the options of, with autotuning left on.

    Setting it on top of Keras' options would have TensorFlow log a warning.

    Raises:
        AttributeError: If the dataset's last stage is not its options.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = dataset.options().threading.private_threadpool_size
    options.experimental_optimization.inject_prefetch = False
    return dataset._input_dataset.with_options(options)


def with_timed_fetches(dataset: Any) -> Any:
    """Returns the dataset with a stage on top in which tf.data times its fetches.

    Raises:
        Exception: If this TensorFlow has no such stage.
    """
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    totals = tf.raw_ops.StatsAggregatorHandle()
    layout = dataset._flat_structure
    timed = tf.raw_ops.LatencyStatsDataset(
        input_dataset=dataset._variant_tensor, tag="fetch", **layout
    )
    timed = tf.raw_ops.SetStatsAggregatorDataset(
        input_dataset=timed, stats_aggregator=totals, tag="", counter_prefix="", **layout
    )

    def total_s() -> float:
        serialized = tf.raw_ops.StatsAggregatorSummary(iterator=totals).numpy()
        summary = tf.compat.v1.Summary.FromString(serialized)
        # TensorFlow counts in microseconds; before the first fetch there is no entry.
        return float(sum(value.histo.sum for value in summary.value)) * 1e-6

    dataset = dataset_ops.UnaryUnchangedStructureDataset(dataset, timed)
    setattr(dataset, _FETCH_TIME, total_s)
    return dataset


def fetch_time(iterator: Any) -> Any:
    """Returns the function that tells how long an iterator's fetches took so far, in seconds.

    Raises:
        ValueError: If they are not timed.
    """
    total_s = getattr(getattr(iterator, "_dataset", None), _FETCH_TIME, None)
    if total_s is None:
        raise ValueError("its fetches are not timed")
    return total_s
