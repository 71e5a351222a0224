"""The user's code behind a PyTorch `DataLoader`: its dataset, transforms and `collate_fn`.

Torch is not imported: what is read here exists only if user code imported it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keras_gpukit.input.pipelines.places import method_of

_TORCH = "torch.utils.data"


def code_of_loader(loader: Any) -> list[Any]:
    """Returns the functions that make the batches: the dataset's own first.

    Its transforms are found as far as they are attributes of the dataset, also in lists, as in
    torchvision's `Compose`.

    Args:
        loader: A `torch.utils.data.DataLoader`.
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
