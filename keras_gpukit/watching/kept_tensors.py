"""Tensors and arrays that callbacks, the model and the script keep in lists and the like.

Of callbacks and the model it is looked at what an attribute holds itself, and what a function in an
attribute has enclosed: a list of losses in a callback, or in the closure of a `LambdaCallback`. Of
the script these are global variables. What a function of the script has in variables of its own is
out of sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from keras_gpukit.placement.names import short_device
from keras_gpukit.records.epoch_memory import HOST, Kept
from keras_gpukit.watching.script_globals import global_collections, is_collection

LEAST_BYTES = 2**20
MOST_NAMED = 5
MOST_LOOKED_AT = 1000
"""Items of one collection; of more, a sample stands for all."""
MOST_OF_OTHERS = 32
"""Items of which none is or has a tensor: then the others are taken for others, too."""


class KeptTensors:
    """Measures collections of tensors again and again, to see which of them grow."""

    def __init__(self) -> None:
        self._first_bytes: dict[tuple[str | None, str, str], int] = {}

    def read(self, owners: Iterable[Any]) -> tuple[Kept, ...]:
        """Returns those that grew most since they were first seen, the others by their size.

        Args:
            owners: Callbacks and the model.
        """
        grown = []
        for held in _different(_held(owners)):
            try:
                sizes = _sizes(held.collection)
            except (RuntimeError, LookupError):  # another thread changes it
                continue
            for where, size_bytes in sizes.items():
                key = held.module, held.name, where
                first_bytes = self._first_bytes.setdefault(key, size_bytes)
                if size_bytes >= LEAST_BYTES:
                    length = len(held.collection)
                    kept = Kept(held.name, where, size_bytes, held.module, length)
                    grown.append((size_bytes - first_bytes, size_bytes, kept))
        grown.sort(key=lambda each: each[:2], reverse=True)
        return tuple(kept for *_, kept in grown[:MOST_NAMED])


class _Held(NamedTuple):
    module: str | None
    name: str
    collection: Any


def _held(owners: Iterable[Any]) -> Iterator[_Held]:
    for owner in owners:
        for name, value in _of_object(owner):
            yield _Held(None, f"{type(owner).__name__}.{name}", value)
    for held in global_collections():
        yield _Held(*held)


def _different(held: Iterable[_Held]) -> Iterator[_Held]:
    """Leaves out what was there under another name."""
    seen = set()
    for each in held:
        if id(each.collection) not in seen:
            seen.add(id(each.collection))
            yield each


def _of_object(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yields the collections that an object holds, by name."""
    for name, value in tuple(vars(owner).items()):
        if is_collection(value):
            yield name, value
        for enclosed_name, enclosed in _enclosed(value):
            if is_collection(enclosed):
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
    """Bytes of the tensors and arrays in a collection, by where they are.

    What is in it several times counts once, and a view of an array as that array: the others take
    nothing.
    """
    seen: set[int] = set()
    items, every = _sample(collection)
    sizes: dict[str, float] = {}
    repeats = False
    for number, item in enumerate(items):
        if number == MOST_OF_OTHERS and not sizes:
            break
        # A batch or an epoch often leaves a tuple or a dictionary of tensors.
        parts, each_stands_for = _sample(item) if is_collection(item) else ((item,), 1.0)
        for part_number, part in enumerate(parts):
            if part_number == MOST_OF_OTHERS and not sizes:
                break
            where, size_bytes, owner = _size(part)
            if not size_bytes:
                continue
            repeats = repeats or owner in seen
            if owner not in seen:
                seen.add(owner)
                sizes[where] = sizes.get(where, 0.0) + size_bytes * each_stands_for
    # Of a sample with repeats it is not known how many of the others are repeats.
    return {where: int(size * (1.0 if repeats else every)) for where, size in sizes.items()}


def _sample(collection: Any) -> tuple[Iterable[Any], float]:
    """Some of the items, and how many each stands for; the first ones of what has no order."""
    count = len(collection)
    if isinstance(collection, (list, tuple)):
        every = max(-(-count // MOST_LOOKED_AT), 1)
        return [collection[place] for place in range(0, count, every)], float(every)
    values = collection.values() if isinstance(collection, dict) else collection
    return list(islice(values, MOST_LOOKED_AT)), max(count / MOST_LOOKED_AT, 1.0)


def _size(value: Any) -> tuple[str, int, int]:
    """Where a tensor or an array is, its bytes, and what it has these in; 0 for anything else."""
    import numpy as np
    import tensorflow as tf

    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        # What is mapped from a file can leave memory at any time.
        return HOST, 0 if isinstance(value, np.memmap) else value.nbytes, id(value)
    if isinstance(value, tf.Tensor) and hasattr(value, "numpy") and value.dtype.size:
        device = short_device(str(value.device)) or HOST
        size_bytes = int(value.shape.num_elements() or 0) * value.dtype.size
        return device, size_bytes, id(value)
    return HOST, 0, id(value)
