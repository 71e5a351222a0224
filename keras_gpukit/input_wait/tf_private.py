"""TensorFlow's private names that the input wait is read through.

Seen on TensorFlow 2.21: `DistributedIterator._iterators` and what makes one anew, the workers'
`_iterator`, `OwnedMultiDeviceIterator._device_iterators`, `OwnedIterator._dataset`,
`OwnedIterator._iterator_resource`,
`DatasetV2._variant_tensor`, `._flat_structure` and `._inputs`, `_OptionsDataset._input_dataset` and
`._options_attr`, `Options._set_mutable`, stages' `_num_parallel_calls` and `_buffer_size`,
`StructuredFunctionWrapper._function`,
`dataset_ops.UnaryUnchangedStructureDataset`, and the kernels of `LatencyStatsDataset`; on Keras
3.12 to 3.15 the module of its step functions.
Where one is gone, the mechanism that needs it is not chosen.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

AUTOTUNE = -1
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


# Gathering a dataset's options takes half a millisecond, and each epoch asks about the same one.
_is_tuned: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def has_model(iterator: Any) -> bool:
    """Whether tf.data keeps a model of the pipeline: asking for one there is not logs a warning."""
    dataset = getattr(iterator, "_dataset", None)
    if dataset is None:
        return True
    if dataset not in _is_tuned:
        _is_tuned[dataset] = dataset.options().autotune.enabled is not False
    return _is_tuned[dataset]


class ModelReader:
    """Reads tf.data's model of a pipeline in two steps, of which training waits only for the first.

    `tf.data.experimental.get_model_proto` takes them at once.
    """

    def __init__(self) -> None:
        import tensorflow as tf
        from tensorflow.core.framework import model_pb2

        self._read = tf.raw_ops.IteratorGetModelProto
        self._parse = model_pb2.ModelProto.FromString

    def read(self, iterator: Any) -> Any:
        """Returns the model of a `tf.data.Iterator`, as a string tensor.

        Raises:
            Exception: If tf.data keeps none.
        """
        return self._read(iterator=iterator._iterator_resource)

    def parse(self, serialized: Any) -> Any:
        """Returns the `ModelProto` in what was read."""
        return self._parse(serialized.numpy())


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
    """Returns a dataset whose autotuning is off with it on, and nothing in it that would be tuned.

    Raises:
        ValueError: If a stage asks to be tuned, or the dataset's last stage is not its options.
    """
    import tensorflow as tf

    # Set on top of the options that turn it off, TensorFlow would log a warning.
    if not hasattr(dataset, "_options_attr") or _asks_to_be_tuned(dataset):
        raise ValueError("a stage asks to be tuned")
    options = tf.data.Options().merge(dataset.options())
    options._set_mutable(True)
    options.autotune.enabled = True
    # What autotuning brings about by itself.
    options.experimental_optimization.inject_prefetch = False
    options.experimental_optimization.map_parallelization = False
    return dataset._input_dataset.with_options(options)


def _asks_to_be_tuned(dataset: Any) -> bool:
    """Whether a stage, or one within it, leaves a number of its own to `tf.data.AUTOTUNE`."""
    numbers = (getattr(dataset, name, None) for name in ("_num_parallel_calls", "_buffer_size"))
    wrapped = (getattr(value, "_function", None) for value in vars(dataset).values())
    return (
        any(number is not None and int(number) == AUTOTUNE for number in numbers)
        or any(_holds_autotune(function.graph) for function in wrapped if function is not None)
        or any(_asks_to_be_tuned(source) for source in dataset._inputs())
    )


def _holds_autotune(graph: Any) -> bool:
    """Whether a function that makes datasets has the number; in another place it does no harm."""
    operations = graph.get_operations()
    return any("Dataset" in operation.type for operation in operations) and any(
        list(operation.get_attr("value").int64_val) == [AUTOTUNE]
        for operation in operations
        if operation.type == "Const"
    )


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


def fetch_time(iterator: Any) -> Callable[[], float]:
    """Returns the function that tells how long an iterator's fetches took so far, in seconds.

    Raises:
        ValueError: If they are not timed.
    """
    dataset = getattr(iterator, "_dataset", None)
    total_s: Callable[[], float] | None = getattr(dataset, _FETCH_TIME, None)
    if total_s is None:
        raise ValueError("its fetches are not timed")
    return total_s
