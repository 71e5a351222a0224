"""Iterators over datasets, and tf.data's model of their pipelines."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from keras_gpukit.frameworks.tf_datasets import dataset_of, once_per_dataset

HIDE_MODELS = ("GPU",)
"""Kinds of devices without an operation that reads the model of an iterator there."""


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
    return dataset_of(next(iter(getattr(iterator, "_iterators", ())), iterator))


def shows_models(device: str) -> bool:
    """Whether the models of iterators on a device can be read."""
    return not any(hides in device.upper() for hides in HIDE_MODELS)


def shows_model(iterator: Any) -> bool:
    """Whether the model of an iterator can be read where it is."""
    return shows_models(iterator._iterator_resource.device)


@once_per_dataset  # collecting the options takes half a millisecond
def is_autotuned(dataset: Any) -> bool:
    """Whether a dataset's autotuning is on. Only then does tf.data keep a model of the pipeline."""
    return dataset.options().autotune.enabled is not False


def has_model(iterator: Any) -> bool:
    """Whether tf.data keeps a model of the pipeline. If not, reading it would log a warning."""
    dataset = dataset_of(iterator)
    return dataset is None or is_autotuned(dataset)


# Datasets whose model can be read. Trying it takes about 50 µs with cold caches, and each epoch
# would try it on the same dataset.
_readable: weakref.WeakSet[Any] = weakref.WeakSet()


def read_model(iterator: Any) -> Any:
    """Returns tf.data's model of a pipeline, as a string tensor.

    `tf.data.experimental.get_model_proto` would also parse it, while training waits. Raises if
    tf.data keeps no model of the pipeline.
    """
    import tensorflow as tf

    return tf.raw_ops.IteratorGetModelProto(iterator=iterator._iterator_resource)


def parse_model(reading: Any) -> Any:
    """Returns the `ModelProto` of a reading that `read_model` returned."""
    from tensorflow.core.framework import model_pb2

    return model_pb2.ModelProto.FromString(reading.numpy())


def check_model(iterator: Any) -> None:
    """Tries to read the model, which raises without one; once for all iterators over a dataset."""
    dataset = dataset_of(iterator)
    if dataset is None or dataset not in _readable:
        read_model(iterator)
        if dataset is not None:
            _readable.add(dataset)


def empty_iterator(iterator: Any) -> Any:
    """Returns an iterator of the same type without data; no part of the pipeline runs."""
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


def wrap_takes(wrap: Callable[[Any], Any]) -> None:
    """Wraps the method by which a `for` loop over a dataset takes a batch.

    Keras' `fit` and `evaluate` do not call it, since their steps fetch batches in a graph.
    Without it, a script without `fit` is not measured.
    """
    from tensorflow.python.data.ops import iterator_ops

    iterator_ops.OwnedIterator.__next__ = wrap(iterator_ops.OwnedIterator.__next__)
