"""Datasets: the stages of a `tf.data` pipeline, their inputs, functions and settings."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
Dataset = Any
"""A `tf.data.Dataset`."""


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
