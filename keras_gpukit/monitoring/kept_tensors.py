"""Measures tensors and arrays that callbacks, the model and the script keep in collections.

A collection is a list, a dictionary or the like. In callbacks and the model, we look at attributes
and at the closures of functions in attributes: a list of losses in a callback, or in the closure of
a `LambdaCallback`. In the script, we look at global variables. Local variables of the script's
functions are not visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from keras_gpukit.monitoring.script_globals import global_collections, is_collection
from keras_gpukit.profiling.placement.operation_names import short_device
from keras_gpukit.records.machine import HOST, Kept

LEAST_BYTES = 2**20
MOST_NAMED = 5
MOST_LOOKED_AT = 1000
"""Maximum number of items looked at in one collection. Larger collections are sampled."""
MOST_OF_OTHERS = 32
"""Number of first values without a tensor after which a collection is taken to contain none."""


class KeptTensors:
    """Measures collections of tensors repeatedly, to find out which of them grow."""

    def __init__(self) -> None:
        self._first_bytes: dict[tuple[str | None, str, str], int] = {}

    def read_largest(self, owners: Iterable[Any]) -> tuple[Kept, ...]:
        """Returns the collections that grew most since they were first seen, then the largest.

        At most five are returned, each with at least 1 MiB in one location.
        """
        grown, seen = [], set()
        of_owners = (
            (None, f"{type(owner).__name__}.{name}", value)
            for owner in owners
            for name, value in _of_object(owner)
        )
        for module, name, collection in chain(of_owners, global_collections()):
            if id(collection) in seen:  # it has several names
                continue
            seen.add(id(collection))
            try:
                sizes = _sizes(collection)
            except (RuntimeError, LookupError):  # another thread is changing it
                continue
            for where, size_bytes in sizes.items():
                first_bytes = self._first_bytes.setdefault((module, name, where), size_bytes)
                if size_bytes >= LEAST_BYTES:
                    kept = Kept(name, where, size_bytes, module, len(collection))
                    grown.append((size_bytes - first_bytes, size_bytes, kept))
        grown.sort(key=lambda growth: growth[:2], reverse=True)
        return tuple(kept for *_, kept in grown[:MOST_NAMED])


def _of_object(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yields the name and value of each collection in an object's attributes and closures."""
    for name, value in tuple(vars(owner).items()):
        if is_collection(value):
            yield name, value
        code, cells = getattr(value, "__code__", None), getattr(value, "__closure__", None)
        for enclosed, cell in zip(getattr(code, "co_freevars", ()), cells or (), strict=False):
            with suppress(ValueError):  # the cell is still empty
                if is_collection(cell.cell_contents):
                    yield enclosed, cell.cell_contents


def _sizes(collection: Any) -> dict[str, int]:
    """Returns the bytes of the tensors and arrays in a collection, by location.

    A tensor or array that occurs several times counts once. A view counts as the array that owns
    its memory.
    """
    items, every = _sample(collection)
    # Items are often tuples or dictionaries of tensors, one per batch or epoch.
    samples = (_sample(item) if is_collection(item) else ((item,), 1.0) for item in items)
    parts = ((part, stands_for) for found, stands_for in samples for part in found)
    seen: set[int] = set()
    sizes: dict[str, float] = {}
    repeats = False
    for number, (part, stands_for) in enumerate(parts):
        if number == MOST_OF_OTHERS and not sizes:
            break
        where, size_bytes, owner = _size(part)
        if size_bytes and owner in seen:
            repeats = True
        elif size_bytes:
            seen.add(owner)
            sizes[where] = sizes.get(where, 0.0) + size_bytes * stands_for
    # If the sample has repeats, the share of repeats among the other items is unknown.
    return {where: int(size * (1.0 if repeats else every)) for where, size in sizes.items()}


def _sample(collection: Any) -> tuple[Iterable[Any], float]:
    """Returns a sample of the items, and the number of items that each one stands for.

    Lists and tuples are sampled evenly. Of other collections, the first items are taken.
    """
    count = len(collection)
    if isinstance(collection, (list, tuple)):
        every = max(-(-count // MOST_LOOKED_AT), 1)
        return [collection[place] for place in range(0, count, every)], float(every)
    values = collection.values() if isinstance(collection, dict) else collection
    return list(islice(values, MOST_LOOKED_AT)), max(count / MOST_LOOKED_AT, 1.0)


def _size(value: Any) -> tuple[str, int, int]:
    """Returns the location of a tensor or array, its bytes, and the `id` of its memory's owner.

    The bytes of any other object are 0.
    """
    import numpy as np
    import tensorflow as tf

    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        # Memory mapped from a file can be released at any time, so it does not count.
        return HOST, 0 if isinstance(value, np.memmap) else value.nbytes, id(value)
    if isinstance(value, tf.Tensor) and hasattr(value, "numpy") and value.dtype.size:
        device = short_device(str(value.device)) or HOST
        size_bytes = int(value.shape.num_elements() or 0) * value.dtype.size
        return device, size_bytes, id(value)
    return HOST, 0, id(value)
