"""Tensors and arrays that callbacks and the model keep in lists, dictionaries and the like.

Only what an attribute holds itself is looked at, and what a function in an attribute has enclosed:
a list of losses in a callback, or in the closure of a `LambdaCallback`. What a script keeps in its
own variables is out of sight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from keras_gpukit.placement.names import short_device
from keras_gpukit.records.epoch_memory import HOST, Kept

LEAST_BYTES = 2**20
MOST_NAMED = 3
MOST_LOOKED_AT = 1000
"""Items of one collection; of more, a sample stands for all."""
_COLLECTIONS = (list, tuple, dict, set, frozenset, deque)


def kept_by(owners: Iterable[Any]) -> tuple[Kept, ...]:
    """Returns the largest collections of tensors and arrays, the largest first.

    Args:
        owners: Callbacks and the model.
    """
    found = []
    for owner in owners:
        for name, value in _held(owner):
            sizes = _sizes(value)
            found += [
                Kept(f"{type(owner).__name__}.{name}", where, size_bytes)
                for where, size_bytes in sizes.items()
                if size_bytes >= LEAST_BYTES
            ]
    return tuple(sorted(found, key=lambda each: -each.size_bytes)[:MOST_NAMED])


def _held(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yields the collections that an object holds, by name."""
    for name, value in tuple(vars(owner).items()):
        if isinstance(value, _COLLECTIONS):
            yield name, value
        for enclosed_name, enclosed in _enclosed(value):
            if isinstance(enclosed, _COLLECTIONS):
                yield enclosed_name, enclosed


def _enclosed(function: Any) -> Iterator[tuple[str, Any]]:
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue


def _sizes(collection: Any) -> dict[str, int]:
    """Bytes of the tensors and arrays in a collection, by where they are."""
    values = collection.values() if isinstance(collection, dict) else collection
    count = len(collection)
    every = max(-(-count // MOST_LOOKED_AT), 1)
    sizes: dict[str, int] = {}
    for item in islice(tuple(values) if every > 1 else values, 0, None, every):
        # A batch or an epoch often leaves a tuple or a dictionary of tensors.
        inner = item.values() if isinstance(item, dict) else item
        parts = inner if isinstance(item, _COLLECTIONS) else (item,)
        for part in islice(parts, MOST_LOOKED_AT):
            where, size_bytes = _size(part)
            if size_bytes:
                sizes[where] = sizes.get(where, 0) + size_bytes * every
    return sizes


def _size(value: Any) -> tuple[str, int]:
    import numpy as np
    import tensorflow as tf

    if isinstance(value, np.ndarray):
        # A view takes nothing, and keeps all of what it is a view of; that may be shared.
        return HOST, value.nbytes
    if isinstance(value, tf.Tensor) and hasattr(value, "numpy") and value.dtype.size:
        device = short_device(str(value.device)) or HOST
        return device, int(value.shape.num_elements() or 0) * value.dtype.size
    return HOST, 0
