"""Datasets: the stages of a `tf.data` pipeline, iterators over it, and tf.data's model of it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
Dataset = Any
"""A `tf.data.Dataset`."""
HIDE_MODELS = ("GPU",)
"""Kinds of devices without an operation that reads the model of an iterator there."""


def once_per_dataset(read: Callable[[Dataset], T]) -> Callable[[Dataset], T]:
    """Caches a function's results per dataset, since each epoch and each fit ask for the same ones.

    A result must not hold a reference to the dataset.
    """
    known: weakref.WeakKeyDictionary[Dataset, T] = weakref.WeakKeyDictionary()

    @functools.wraps(read)
    def remembered(dataset: Dataset) -> T:
        try:
            return known[dataset]
        except KeyError:
            known[dataset] = found = read(dataset)
            return found

    return remembered


def kind(stage: Dataset) -> str:
    """Returns the exact kind of a stage, such as "ParallelMap", "Batch" or "TensorSlice"."""
    return type(stage).__name__.strip("_").removesuffix("V2").removesuffix("Dataset")


def dataset_of(iterator: Any) -> Any:
    """Returns the Python dataset that an iterator reads; None if unknown."""
    return getattr(iterator, "_dataset", None)


def unwrapped(stage: Dataset) -> Dataset:
    """Returns the stage that implements a reader of files; any other stage as it is."""
    inner = getattr(stage, "_impl", None)
    return stage if inner is None else inner


@once_per_dataset
def is_fed_by_another(dataset: Any) -> bool:
    """Whether a dataset only fetches elements of another dataset, for one of several replicas.

    Its class is `_PerDeviceGenerator` or `_ReincarnatedPerDeviceGenerator`.
    """
    return any("PerDeviceGenerator" in type(stage).__name__ for stage in stages(dataset))


def is_readable(stage: Dataset) -> bool:
    """Whether the inputs and functions of a stage can be read.

    If not, only its kind is known, and tuning leaves it unchanged.
    """
    if not (hasattr(stage, "_inputs") and hasattr(stage, "_functions")):
        return False
    return all(hasattr(wrapper, "function") for wrapper in stage._functions())


def inputs(stage: Dataset) -> list[Dataset]:
    """Returns the stages that a stage reads from; none if they are unknown."""
    return [unwrapped(dataset) for dataset in stage._inputs()] if is_readable(stage) else []


def stages(dataset: Dataset) -> Iterator[Dataset]:
    """Yields all stages of a pipeline, each before its inputs."""
    ahead = [unwrapped(dataset)]
    while ahead:  # a chain of `concatenate` may be deeper than Python's stack
        yield ahead[-1]
        ahead += reversed(inputs(ahead.pop()))


def concatenated(stage: Dataset) -> list[Dataset]:
    """Returns all datasets that a chain of `concatenate` calls joins, in order; else none."""
    parts: list[Dataset] = []
    while type(stage).__name__ == "_ConcatenateDataset" and (below := inputs(stage)):
        stage, last = below
        parts.append(last)
    return [stage, *reversed(parts)] if parts else []


def functions(stage: Dataset) -> list[Any]:
    """Returns the traced functions that a stage calls; none if they are unknown."""
    if not is_readable(stage):
        return []
    return [wrapper.function for wrapper in stage._functions()]


def functions_of(stage: Dataset) -> list[tuple[Callable[..., Any], Any]]:
    """Returns the functions that a stage calls, each as a Python function and its graph."""
    if not is_readable(stage):
        return []
    wrappers = [
        wrapper for wrapper in stage._functions() if callable(getattr(wrapper, "_func", None))
    ]
    return [(wrapper._func, wrapper.function.graph) for wrapper in wrappers]


def given_name(dataset: Any) -> str | None:
    """Returns the name that user code gave a stage with `name=`; None without one."""
    metadata = getattr(dataset, "_metadata", None)
    return metadata.name.decode() or None if metadata is not None else None


def setting(stage: Dataset, name: str, *default: Any) -> Any:
    """Returns a setting that a stage was made with, such as `batch_size` or `deterministic`."""
    return getattr(stage, f"_{name}", *default)


def number(stage: Dataset, name: str) -> int:
    """Returns a setting that is a whole number, such as `buffer_size` or `cycle_length`."""
    return int(setting(stage, name))


def is_zip_of_a_tuple(stage: Dataset) -> bool:
    """Whether a `zip` was called with a tuple of datasets, without further nesting."""
    datasets = getattr(stage, "_datasets", None)
    return isinstance(datasets, tuple) and not any(
        isinstance(dataset, (tuple, dict)) for dataset in datasets
    )


def cache_file(stage: Dataset) -> str:
    """Returns the file name of a `cache`; "" in memory, "unknown" if unknown."""
    name = getattr(stage, "_filename", None)
    return "unknown" if name is None else str(name.numpy().decode())


def batch_size(dataset: Dataset) -> int | None:
    """Returns the examples per batch, as set in the last stage that batches; None if unknown."""
    for stage in stages(dataset):
        if "Batch" in type(stage).__name__ and hasattr(stage, "_batch_size"):
            return number(stage, "batch_size")
    return None


def name_in_graph(operation: Any) -> str | None:
    """Returns the `name=` of a stage that is an operation in a function's graph; None without."""
    from tensorflow.core.framework import dataset_metadata_pb2

    if "metadata" not in {attribute.name for attribute in operation.op_def.attr}:
        return None
    metadata = dataset_metadata_pb2.Metadata.FromString(operation.get_attr("metadata"))
    return metadata.name.decode() or None


def input_of(stage: Dataset) -> Dataset:
    """Returns the input of a stage that has a single one, as it was given."""
    return stage._input_dataset


def changed_options(dataset: Dataset) -> Any:
    """Returns a copy of a dataset's options that can be changed."""
    import tensorflow as tf

    options = tf.data.Options().merge(dataset.options())
    options._set_mutable(True)
    return options


def with_operations(dataset: Dataset, make: Callable[[Any, dict[str, Any]], Any]) -> Dataset:
    """Returns a dataset with operations on top that leave its elements as they are.

    `make` gets the dataset's tensor, and the arguments that give the types and shapes of elements.
    """
    from tensorflow.python.data.ops import dataset_ops

    made = make(dataset._variant_tensor, dataset._flat_structure)
    return dataset_ops.UnaryUnchangedStructureDataset(dataset, made)


def generator_of(state: Any) -> Any | None:
    """Returns the generator in what `from_generator` keeps; None if a state is not its own."""
    return getattr(state, "_generator", None)


def replace_generator(state: Any, generator: Any) -> None:
    """Makes a state of `from_generator` call another generator."""
    state._generator = generator


def generators_in_use(state: Any) -> list[Any]:
    """Returns the generators that a state of `from_generator` has called."""
    return list(state._iterators.values())


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
