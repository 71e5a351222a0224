"""User code in datasets of other libraries: transformations of Grain, and loaders of PyTorch.

Neither is imported: what is read here exists only if user code imported it. A dataset of Grain and
an iterator over it are read in the same way.

Private names, seen on Grain 0.2.18: `_parents`, `_map_parent`, `_iter_parent`, `_datasets`,
`_map_fn`, `_filter_fn`, `_batch_fn`, `_operation`, `_transform`, `_source` and `_read_options` of
the datasets and iterators, `DataLoader._dataset` and `._multiprocessing_options`,
`DataLoaderIterator._iterator`, and the closures in which a `DataLoader` wraps its operations. If
one is missing, a transformation has no function, or those before it are unknown.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from keras_gpukit.input.pipelines.functions import snake_case
from keras_gpukit.input.pipelines.places import method_of, name_and_location
from keras_gpukit.records.pipeline import ARRAYS, Work

_TORCH = "torch.utils.data"
_CLASSES = ("MapDataset", "IterDataset", "DataLoader")
_FUNCTIONS = ("_map_fn", "_filter_fn", "_batch_fn", "_transform", "_operation", "operation")
_FETCHES = ("__getitem__", "__next__", "__iter__")
_METHODS = ("map", "random_map", "np_random_map", "map_with_index", "filter", "flat_map")
_WORK: dict[str, Work] = {
    "batch": "batching",
    "shuffle": "shuffling",
    "window_shuffle": "shuffling",
    "source": "reading",
}


@dataclass(frozen=True)
class Transformation:
    """A transformation of a Grain dataset: the dataset, or the iterator over it.

    Its `kind` is the method in user code, such as "MapDataset.map". `name` and `location` are those
    of its function there, such as "Augment.map" at "file.py:12"; one by Keras has no location.
    """

    node: Any
    kind: str
    name: str | None
    location: str | None

    @property
    def work(self) -> Work:
        """Kind of work that it does."""
        return "python" if self.name else _WORK.get(self.kind.rpartition(".")[2], "other")

    @property
    def threads(self) -> int | None:
        """Number of threads that run all transformations before this one; None if it starts none.

        `MapDataset.to_iter_dataset` starts them, with 16 threads unless its `ReadOptions` differ.
        """
        options = getattr(self.node, "_read_options", None)
        if options is None:
            return 1 if "ThreadPrefetch" in type(self.node).__name__ else None
        return min(int(options.num_threads), int(options.prefetch_buffer_size)) or None


def is_grain(dataset: Any) -> bool:
    """Whether an object is a dataset or `DataLoader` of Grain."""
    return any(
        base.__name__ in _CLASSES and base.__module__.split(".")[0] == "grain"
        for base in type(dataset).__mro__
    )


def is_data_loader(dataset: Any) -> bool:
    """Whether a Grain dataset is a `DataLoader`."""
    return type(dataset).__name__ == "DataLoader"


def worker_processes(dataset: Any) -> int:
    """Returns the number of processes that make the elements of a dataset; 0 if this one does."""
    if is_data_loader(dataset):
        return int(dataset._multiprocessing_options.num_workers)
    return sum("process_prefetch" in stage.kind for stage in transformations(dataset))


def transformations(node: Any) -> Iterator[Transformation]:
    """Yields the transformations of a dataset or iterator, from the last one to the sources."""
    node = inner(node)
    yield transformation(node)
    for source in before(node):
        yield from transformations(source)


def inner(node: Any) -> Any:
    """Returns the dataset in a `DataLoader`, or the iterator in its iterator."""
    inside = {"DataLoader": "_dataset", "DataLoaderIterator": "_iterator"}
    return getattr(node, inside.get(type(node).__name__, ""), node)


def before(node: Any) -> tuple[Any, ...]:
    """Returns the datasets or iterators that one reads from."""
    for name in ("_map_parent", "_iter_parent"):
        if hasattr(node, name):
            return (getattr(node, name),)
    found = getattr(node, "_datasets", None) or getattr(node, "_parents", ())
    return tuple(found) if isinstance(found, tuple | list) else ()


def transformation(node: Any) -> Transformation:
    """Returns what a dataset or iterator does to the elements of those before it."""
    called = type(node).__name__.lstrip("_")
    dataset = "MapDataset" if called.endswith("MapDataset") else "IterDataset"
    verb = re.sub(r"((Map|Iter)Dataset|DatasetIterator|Dataset)$", "", called)
    return Transformation(node, f"{dataset}.{snake_case(verb)}", *_in_user_code(node))


def _in_user_code(node: Any) -> tuple[str | None, str | None]:
    """Returns the name and place of the function that a transformation calls; None if unknown."""
    called = [getattr(node, name) for name in _FUNCTIONS if hasattr(node, name)]
    if called:
        function = _unwrapped(called[0])
        method = next((m for m in _METHODS if hasattr(type(function), m)), "__call__")
        function = method_of(function, method)
    else:
        source = getattr(node, "_source", node)
        ways = (getattr(type(source), name, None) for name in _FETCHES)
        function = next((fetch for fetch in ways if fetch is not None), None)
    name, location = name_and_location(function)
    # Grain's own functions, and those of other libraries, have no place in user code.
    return (name, location) if location or str(name).startswith(ARRAYS) else (None, None)


def _unwrapped(function: Any) -> Any:
    """Returns the user's transformation within those with which a `DataLoader` wraps it."""
    if not str(getattr(function, "__module__", "")).startswith("grain."):
        return function
    ways = (
        closed_over(function).get("transform"),
        getattr(getattr(function, "__self__", None), "_transform", None),
        getattr(function, "values_batch_fn", None),
    )
    return next((wrapped for wrapped in ways if wrapped is not None), function)


def code_of_loader(loader: Any) -> list[Any]:
    """Returns the functions that make the batches: the dataset's own first.

    Its transforms are found as far as they are attributes of the dataset, also in lists, as in
    torchvision's `Compose`.
    """
    dataset = _without_wrappers(loader.dataset)
    kind = type(dataset)
    fetch = next(
        (getattr(kind, name) for name in ("__getitems__", "__getitem__") if hasattr(kind, name)),
        getattr(kind, "__iter__", None),
    )
    called = [function for value in vars(dataset).values() for function in _called(value)]
    return [fetch, *called, *_called(loader.collate_fn)]


def _without_wrappers(dataset: Any) -> Any:
    """Returns the user's dataset in a `Subset`, such as one by `random_split`."""
    while type(dataset).__module__.startswith(_TORCH) and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return dataset


def _called(value: Any) -> Iterator[Any]:
    """Yields the functions of a transform; none if a value cannot be called."""
    if not callable(value) or isinstance(value, type):
        return
    parts = getattr(value, "transforms", None)
    if isinstance(parts, list | tuple):
        for part in parts:
            yield from _called(part)
        return
    # The call of a `torch.nn.Module`, as torchvision's transforms are, leads to its `forward`.
    yield method_of(value, "forward" if hasattr(type(value), "forward") else "__call__")


def closed_over(function: Any) -> dict[str, Any]:
    """Returns the variables in a function's closure, by name; {} if they cannot be read."""
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except (TypeError, ValueError):  # it is no function, or a cell is still empty
        return {}
