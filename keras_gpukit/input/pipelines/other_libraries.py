"""User code in datasets of other libraries: transformations of Grain, and loaders of PyTorch.

Neither is imported: what is read here exists only if user code imported it.

Private names, seen on Grain 0.2.18: `_parents`, `_datasets`, `_map_fn`, `_filter_fn`, `_batch_fn`,
`_operation`, `_transform`, `_source` and `_read_options` of the datasets, `DataLoader._dataset` and
`._multiprocessing_options`, and the closures in which a `DataLoader` wraps its operations. If one
is missing, a transformation has no function, or those before it are unknown.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from keras_gpukit.input.pipelines.kinds import snake_case
from keras_gpukit.input.pipelines.places import method_of, name_and_location

THREADS = 16
"""Number of threads that Grain starts by default."""
_TORCH = "torch.utils.data"
_CLASSES = ("MapDataset", "IterDataset", "DataLoader")
_FUNCTIONS = ("_map_fn", "_filter_fn", "_batch_fn", "_transform", "_operation", "operation")
_FETCHES = ("__getitem__", "__next__", "__iter__")
_METHODS = ("map", "random_map", "np_random_map", "map_with_index", "filter", "flat_map")


class Transformation(NamedTuple):
    """A transformation of a Grain dataset.

    Attributes:
        kind: Name of its method in user code: "MapDataset.map", "IterDataset.batch" and the like.
        function: Function in user code that it calls; None if it calls none.
    """

    kind: str
    function: Any
    threads: int


def is_grain(dataset: Any) -> bool:
    """Whether an object is a dataset or `DataLoader` of Grain."""
    return any(
        each.__name__ in _CLASSES and each.__module__.split(".")[0] == "grain"
        for each in type(dataset).__mro__
    )


def is_data_loader(dataset: Any) -> bool:
    """Whether a Grain dataset is a `DataLoader`."""
    return type(dataset).__name__ == "DataLoader"


def worker_processes(dataset: Any) -> int:
    """Returns the number of processes that make the elements of a dataset; 0 if this one does."""
    if is_data_loader(dataset):
        return int(dataset._multiprocessing_options.num_workers)
    return sum("process_prefetch" in each.kind for each in transformations(dataset))


def transformations(node: Any, threads: int | None = None) -> Iterator[Transformation]:
    """Yields the transformations of a dataset, from the last one to the sources.

    `MapDataset.to_iter_dataset` starts threads for all transformations before it. Iterating over a
    `MapDataset` calls it too.
    """
    node = node._dataset if is_data_loader(node) else node
    called = type(node).__name__.lstrip("_")
    dataset = "MapDataset" if called.endswith("MapDataset") else "IterDataset"
    if threads is None:
        threads = THREADS if dataset == "MapDataset" else 1
    verb = re.sub(r"((Map|Iter)Dataset|Dataset)$", "", called)
    yield Transformation(f"{dataset}.{snake_case(verb)}", _in_user_code(node), threads)
    if (options := getattr(node, "_read_options", None)) is not None:
        threads = max(min(int(options.num_threads), int(options.prefetch_buffer_size)), 1)
    given = getattr(node, "_datasets", None) or getattr(node, "_parents", ())
    for each in given if isinstance(given, tuple | list) else ():
        yield from transformations(each, threads)


def _in_user_code(node: Any) -> Any:
    """Returns the function of the user that a transformation calls; None if unknown."""
    called = [getattr(node, name) for name in _FUNCTIONS if hasattr(node, name)]
    if called:
        function = _unwrapped(called[0])
        method = next((m for m in _METHODS if hasattr(type(function), m)), "__call__")
        function = method_of(function, method)
    else:
        source = getattr(node, "_source", node)
        ways = (getattr(type(source), name, None) for name in _FETCHES)
        function = next((each for each in ways if each is not None), None)
    # Grain's own functions, and those of other libraries, have no place in user code.
    return function if name_and_location(function)[1] else None


def _unwrapped(function: Any) -> Any:
    """Returns the user's transformation within those with which a `DataLoader` wraps it."""
    if not str(getattr(function, "__module__", "")).startswith("grain."):
        return function
    ways = (
        closed_over(function).get("transform"),
        getattr(getattr(function, "__self__", None), "_transform", None),
        getattr(function, "values_batch_fn", None),
    )
    return next((each for each in ways if each is not None), function)


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
    called = [each for value in vars(dataset).values() for each in _called(value)]
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
    if not inspect.isfunction(function) or not function.__closure__:
        return {}
    try:
        cells = [cell.cell_contents for cell in function.__closure__]
    except ValueError:  # a cell is still empty
        return {}
    return dict(zip(function.__code__.co_freevars, cells, strict=True))
