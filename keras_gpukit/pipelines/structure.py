"""The structure of a `tf.data` pipeline: its stages, their inputs, functions and settings.

Private names of TensorFlow, seen on 2.21: `OwnedIterator._dataset`, `DatasetV2._inputs`,
`._functions`, `._metadata` and `._impl`, the stages' classes and settings (`_batch_size`, `_seed`
and so on), `_PerDeviceGenerator` and `_ReincarnatedPerDeviceGenerator` (what each replica fetches
from under a mirrored strategy), and `StructuredFunctionWrapper._func` and `.function`. Where a name
is gone, the stage is known only by its kind, and tuning leaves it unchanged.
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
    """Remembers what a function says of a dataset, as each epoch and fit asks about the same one.

    Args:
        read: Its result must not hold the dataset.
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
    """Returns the Python dataset that an iterator runs over, or None."""
    return getattr(iterator, "_dataset", None)


def unwrapped(stage: Dataset) -> Dataset:
    """The stage behind a reader of files, which is a stage over the files' names."""
    inner = getattr(stage, "_impl", None)
    return stage if inner is None else inner


@once_per_dataset
def is_fed_by_another(dataset: Any) -> bool:
    """Whether a dataset only fetches for one of several replicas what another one makes."""
    return "PerDeviceGenerator" in type(dataset).__name__ or any(
        is_fed_by_another(source) for source in inputs(dataset)
    )


def is_readable(stage: Dataset) -> bool:
    """Whether it can be seen what a stage reads and which functions it calls."""
    if not (hasattr(stage, "_inputs") and hasattr(stage, "_functions")):
        return False
    return all(hasattr(wrapper, "function") for wrapper in stage._functions())


def inputs(stage: Dataset) -> list[Dataset]:
    """The stages below; none where they are not known."""
    return [unwrapped(each) for each in stage._inputs()] if is_readable(stage) else []


def stages(dataset: Dataset) -> Iterator[Dataset]:
    """Every stage, a stage before those below it."""
    dataset = unwrapped(dataset)
    yield dataset
    for below in inputs(dataset):
        yield from stages(below)


def functions(stage: Dataset) -> list[Any]:
    """The traced functions that a stage calls; none where they are not known."""
    if not is_readable(stage):
        return []
    return [wrapper.function for wrapper in stage._functions()]


def functions_of(stage: Dataset) -> list[tuple[Callable[..., Any], Any]]:
    """The functions that a stage calls, each as the user's function and its graph."""
    if not is_readable(stage):
        return []
    wrappers = [each for each in stage._functions() if callable(getattr(each, "_func", None))]
    return [(each._func, each.function.graph) for each in wrappers]


def given_name(dataset: Any) -> str | None:
    """Returns what the user named a stage with `name=`."""
    metadata = getattr(dataset, "_metadata", None)
    return metadata.name.decode() or None if metadata is not None else None


def setting(stage: Dataset, name: str) -> Any:
    """What a stage was made with, such as its `batch_size` or `deterministic`.

    Raises:
        AttributeError: If the stage has no such setting.
    """
    return getattr(stage, f"_{name}")


def number(stage: Dataset, name: str) -> int:
    """A setting that is a whole number: `buffer_size`, `count`, `cycle_length` and so on.

    Raises:
        AttributeError: If the stage has no such setting.
    """
    return int(setting(stage, name))


def is_zip_of_a_tuple(stage: Dataset) -> bool:
    """Whether a `zip`'s elements are tuples of its inputs' elements, one after the other."""
    datasets = getattr(stage, "_datasets", None)
    return isinstance(datasets, tuple) and not any(
        isinstance(each, (tuple, dict)) for each in datasets
    )


def cache_file(stage: Dataset) -> str:
    """Where a `cache` is on disk; "" for one in memory, and "unknown" where that is not known."""
    name = getattr(stage, "_filename", None)
    return "unknown" if name is None else str(name.numpy().decode())


def batch_size(dataset: Dataset) -> int | None:
    """The examples in a batch, by the stage that batches last; None where that is not known."""
    for stage in stages(dataset):
        if "Batch" in type(stage).__name__ and hasattr(stage, "_batch_size"):
            return number(stage, "batch_size")
    return None
