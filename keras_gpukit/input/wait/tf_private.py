"""Access to the private names of TensorFlow and Keras that the input wait needs.

Seen on TensorFlow 2.21: `DistributedIterator._iterators` and its constructor, the workers'
`_iterator`, `OwnedMultiDeviceIterator._device_iterators`, `OwnedIterator._dataset` and
`._iterator_resource`. Seen on Keras 3.12 to 3.16: the module of its step functions. If one is gone,
the mechanism that needs it is not chosen.
"""

from __future__ import annotations

import weakref
from typing import Any

from keras_gpukit.input.pipelines.structure import once_per_dataset
from keras_gpukit.sensors.older_keras import fetches_within_the_step

HIDE_MODELS = ("GPU",)
"""Kinds of devices without an operation that reads the model of an iterator there."""


def gpu_runs_ahead(steps_per_execution: int) -> bool:
    """Whether a GPU may still compute a step when the host fetches the next batch.

    From Keras 3.16 on, with one step per execution, Python fetches a batch and then calls the
    step, which may return before the GPU has computed it. Up to 3.15 one call does both, and reads
    back from the device whether there was a batch. Not seen on a GPU yet; on CPUs steps are over
    when their call returns.
    """
    import tensorflow as tf

    fetches_apart = steps_per_execution == 1 and not fetches_within_the_step()
    return fetches_apart and bool(tf.config.list_logical_devices("GPU"))


def host_iterator(iterator: Any) -> Any:
    """Returns the `tf.data.Iterator` that feeds the first replica, or None.

    Under a mirrored strategy, each replica has its own iterator. One pipeline fills them in turn,
    so they all wait about equally long.
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


def host_dataset(iterator: Any) -> Any:
    """Returns the host's dataset that feeds an iterator, distributed or not; None if unknown."""
    for worker in getattr(iterator, "_iterators", ()):
        return getattr(worker, "_dataset", None)
    return getattr(iterator, "_dataset", None)


def shows_models(device: str) -> bool:
    """Whether the models of iterators on a device can be read."""
    return not any(hides in device.upper() for hides in HIDE_MODELS)


@once_per_dataset  # collecting the options takes half a millisecond
def is_autotuned(dataset: Any) -> bool:
    """Whether a dataset's autotuning is on. Only then does tf.data keep a model of the pipeline."""
    return dataset.options().autotune.enabled is not False


def has_model(iterator: Any) -> bool:
    """Whether tf.data keeps a model of the pipeline. If not, reading it would log a warning."""
    dataset = getattr(iterator, "_dataset", None)
    return dataset is None or is_autotuned(dataset)


# Datasets whose model can be read. Trying it takes about 50 µs with cold caches, and each epoch
# would try it on the same dataset.
_readable: weakref.WeakSet[Any] = weakref.WeakSet()


def read_model(iterator: Any) -> Any:
    """Returns tf.data's model of a pipeline, as a string tensor.

    `tf.data.experimental.get_model_proto` would also parse it, while training waits.

    Raises:
        Exception: If tf.data keeps no model of the pipeline.
    """
    import tensorflow as tf

    return tf.raw_ops.IteratorGetModelProto(iterator=iterator._iterator_resource)


def parse_model(reading: Any) -> Any:
    """Returns the `ModelProto` of a reading that `read_model` returned."""
    from tensorflow.core.framework import model_pb2

    return model_pb2.ModelProto.FromString(reading.numpy())


def check_model(iterator: Any) -> None:
    """Tries to read the model; does so only once for all iterators over the same dataset.

    Raises:
        Exception: If tf.data keeps no model of the pipeline.
    """
    dataset = getattr(iterator, "_dataset", None)
    if dataset is None or dataset not in _readable:
        read_model(iterator)
        if dataset is not None:
            _readable.add(dataset)


def is_made_by_keras(step_function: Any) -> bool:
    """Whether a step function is the one that Keras makes, not wrapped by other code."""
    made_in = getattr(step_function, "__module__", "")
    return made_in == "keras.src.backend.tensorflow.trainer" and not hasattr(
        step_function, "__wrapped__"
    )


def empty_iterator(iterator: Any) -> Any:
    """Returns an iterator of the same type without data; no part of the pipeline runs.

    Raises:
        Exception: If such an iterator cannot be made.
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
