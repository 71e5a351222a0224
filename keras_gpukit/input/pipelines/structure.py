"""Reads the structure of a `tf.data` pipeline: its stages, their inputs, functions and settings.

Private names of TensorFlow, seen on 2.21: `OwnedIterator._dataset`, `DatasetV2._inputs`,
`._functions`, `._metadata` and `._impl`, the stages' classes and settings (`_batch_size`, `_seed`
and so on), `_PerDeviceGenerator` and `_ReincarnatedPerDeviceGenerator` (what each replica fetches
from under a mirrored strategy), and `StructuredFunctionWrapper._func` and `.function`. If a name is
missing, only the kind of the stage is known, and tuning leaves it unchanged.
"""

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

    Args:
        read: Function of a dataset. Its result must not hold a reference to the dataset.
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


def dataset_of(iterator: Any) -> Any:
    """Returns the Python dataset that an iterator reads; None if it is unknown."""
    return getattr(iterator, "_dataset", None)


def open_shapes(spec: Any) -> tuple[str, ...]:
    """Returns the shapes of a batch's tensors that vary in more than the number of examples."""
    import tensorflow as tf

    shapes = [getattr(each, "shape", None) for each in tf.nest.flatten(spec)]
    return tuple(
        str(tuple(shape))
        for shape in shapes
        if isinstance(shape, tf.TensorShape) and shape.rank and None in tuple(shape)[1:]
    )


def unwrapped(stage: Dataset) -> Dataset:
    """Returns the stage that implements a reader of files, `_impl`; any other stage as it is."""
    inner = getattr(stage, "_impl", None)
    return stage if inner is None else inner


@once_per_dataset
def is_fed_by_another(dataset: Any) -> bool:
    """Whether a dataset only fetches elements of another dataset, for one of several replicas."""
    return "PerDeviceGenerator" in type(dataset).__name__ or any(
        is_fed_by_another(source) for source in inputs(dataset)
    )


def is_readable(stage: Dataset) -> bool:
    """Whether the inputs and functions of a stage can be read."""
    if not (hasattr(stage, "_inputs") and hasattr(stage, "_functions")):
        return False
    return all(hasattr(wrapper, "function") for wrapper in stage._functions())


def inputs(stage: Dataset) -> list[Dataset]:
    """Returns the stages that a stage reads from; none if they are unknown."""
    return [unwrapped(each) for each in stage._inputs()] if is_readable(stage) else []


def stages(dataset: Dataset) -> Iterator[Dataset]:
    """Yields all stages of a pipeline, each before its inputs."""
    dataset = unwrapped(dataset)
    yield dataset
    for below in inputs(dataset):
        yield from stages(below)


def functions(stage: Dataset) -> list[Any]:
    """Returns the traced functions that a stage calls; none if they are unknown."""
    if not is_readable(stage):
        return []
    return [wrapper.function for wrapper in stage._functions()]


def functions_of(stage: Dataset) -> list[tuple[Callable[..., Any], Any]]:
    """Returns the functions that a stage calls, each as a Python function and its graph."""
    if not is_readable(stage):
        return []
    wrappers = [each for each in stage._functions() if callable(getattr(each, "_func", None))]
    return [(each._func, each.function.graph) for each in wrappers]


def given_name(dataset: Any) -> str | None:
    """Returns the name that user code gave a stage with `name=`; None without one."""
    metadata = getattr(dataset, "_metadata", None)
    return metadata.name.decode() or None if metadata is not None else None


def setting(stage: Dataset, name: str) -> Any:
    """Returns a setting that a stage was made with, such as `batch_size` or `deterministic`.

    Raises:
        AttributeError: If the stage has no such setting.
    """
    return getattr(stage, f"_{name}")


def number(stage: Dataset, name: str) -> int:
    """Returns a setting that is a whole number, such as `buffer_size`, `count` or `cycle_length`.

    Raises:
        AttributeError: If the stage has no such setting.
    """
    return int(setting(stage, name))


def is_zip_of_a_tuple(stage: Dataset) -> bool:
    """Whether a `zip` was called with a tuple of datasets, without further nesting."""
    datasets = getattr(stage, "_datasets", None)
    return isinstance(datasets, tuple) and not any(
        isinstance(each, (tuple, dict)) for each in datasets
    )


def cache_file(stage: Dataset) -> str:
    """Returns the file name of a `cache`; "" if it is in memory, "unknown" if that is unknown."""
    name = getattr(stage, "_filename", None)
    return "unknown" if name is None else str(name.numpy().decode())


def batch_size(dataset: Dataset) -> int | None:
    """Returns the examples per batch, as set in the last stage that batches; None if unknown."""
    for stage in stages(dataset):
        if "Batch" in type(stage).__name__ and hasattr(stage, "_batch_size"):
            return number(stage, "batch_size")
    return None
