"""Finds the caches and shuffle buffers of a pipeline, and how many elements each will hold.

Only the definition of the pipeline is read; none of it runs. From training back to the sources, we
compute how many elements of each stage one pass and one step request. If a stage yields a different
number of elements than it reads, such as a filter, the numbers for its inputs are unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from keras_gpukit.frameworks.tf_datasets import (
    Dataset,
    cache_file,
    functions_of,
    inputs,
    number,
    unwrapped,
)
from keras_gpukit.input.pipelines.functions import kind_of
from keras_gpukit.input.pipelines.places import name_and_location
from keras_gpukit.records.pipeline import BufferKind, HostBuffer

TENSOR_BYTES = 128
"""Overhead of a tensor on top of its values; our choice: `benchmarks/results/host_buffers.json`."""
ALIGNED_BYTES = 64
"""TensorFlow does not copy a slice of a tensor that begins at a multiple of this many bytes."""
_BATCHES = ("Batch", "PaddedBatch")
_HANDS_ON = frozenset(
    {"Prefetch", "Options", "Take", "Skip", "Repeat", "AssertCardinality", "Cache", "Shuffle"}
    | {"IgnoreErrors", "UnaryUnchangedStructure"}
)
"""Kinds of stages that pass on the tensors they read, without a copy."""
_SAME_COUNT = _HANDS_ON | {"Map", "Zip"}
_UNKNOWN_COUNT = "the number of its elements is unknown"
_UNKNOWN_SIZE = "the size of its elements is unknown"


@dataclass(frozen=True)
class _Asked:
    """Elements that the stages after a stage, towards training, request from it.

    At most `elements` in one pass, `ahead` of which fill shuffle buffers before the first step. A
    cache after the stage may keep the same tensors in memory.
    """

    elements: float = math.inf
    per_step: float | None = 1.0
    ahead: int = 0
    is_cached: bool = False


def host_buffers(dataset: Dataset, steps: int | None = None) -> tuple[HostBuffer, ...]:
    """Returns the stages of a dataset that keep elements in host memory.

    Caches in files are left out, and so are stages whose tensors another cache keeps anyway. For
    slices of arrays that are in memory anyway, only the overhead per tensor counts.
    """
    asked = _Asked(math.inf if steps is None else steps)
    seen: Counter[str] = Counter()
    found = []
    for buffer, holds_more in _buffers(unwrapped(dataset), asked):
        if holds_more:
            found.append(replace(buffer, place=seen[buffer.kind]))
        seen[buffer.kind] += 1
    return tuple(found)


def _buffers(stage: Dataset, asked: _Asked) -> Iterator[tuple[HostBuffer, bool]]:
    """Yields caches and shuffle buffers, and whether each adds to the memory in use."""
    kind = kind_of(type(stage).__name__)
    below = inputs(stage)
    if kind == "Cache":
        in_memory = not cache_file(stage)
        yield _cache(stage, asked), in_memory and not asked.is_cached
        asked = replace(asked, is_cached=in_memory)
    elif kind in ("Shuffle", "ShuffleAndRepeat"):
        buffer = _shuffle(stage, below[0], asked)
        yield buffer, not asked.is_cached and not _hands_on_from(below[0], "Cache")
        held = buffer.elements or 0
        asked = replace(asked, elements=asked.elements + held, ahead=asked.ahead + held)
    elif kind in _BATCHES:
        size = number(stage, "batch_size")
        asked = _Asked(
            asked.elements * size,
            None if asked.per_step is None else asked.per_step * size,
            asked.ahead * size,
        )
    elif kind == "Take":
        count = number(stage, "count")
        asked = replace(asked, elements=min(asked.elements, count if count >= 0 else math.inf))
    elif kind == "Skip":
        asked = replace(asked, elements=asked.elements + max(number(stage, "count"), 0))
    elif kind not in _SAME_COUNT:
        asked = _Asked(per_step=None)
    if kind not in _HANDS_ON:
        asked = replace(asked, is_cached=False)
    for node in below:
        yield from _buffers(node, asked)


def _cache(stage: Dataset, asked: _Asked) -> HostBuffer:
    most = min(_count(stage), asked.elements)
    return _buffer(stage, f"cache(){_after(stage)}", "cache", most, asked)


def _shuffle(stage: Dataset, below: Dataset, asked: _Asked) -> HostBuffer:
    size = number(stage, "buffer_size")  # if negative, it holds all elements
    name = f"shuffle({size:,})" if size >= 0 else "shuffle()"
    most = min(_count(below), size if size >= 0 else math.inf)
    return _buffer(below, name, "shuffle", most, asked)


def _buffer(holds: Dataset, name: str, kind: BufferKind, most: float, asked: _Asked) -> HostBuffer:
    each_bytes = element_bytes(holds.element_spec, is_sliced=_hands_on_from(holds, "TensorSlice"))
    elements = None if math.isinf(most) else int(most)
    because = None
    if elements is None or each_bytes is None:
        because = _UNKNOWN_COUNT if elements is None else _UNKNOWN_SIZE
    return HostBuffer(
        name,
        kind,
        elements=elements,
        element_bytes=each_bytes,
        per_step=asked.per_step,
        ahead=asked.ahead,
        unknown_because=because,
    )


def _count(stage: Dataset) -> float:
    """Returns a stage's cardinality according to tf.data; infinite if infinite or unknown."""
    count = int(stage.cardinality())
    return math.inf if count < 0 else count


def _after(stage: Dataset) -> str:
    """Returns " after " and the function that made the elements of a stage; "" if unknown."""
    before = inputs(stage)
    while len(before) == 1:
        for function, _ in functions_of(before[0]):
            name, _ = name_and_location(function)
            return f" after {name}" if name else ""
        before = inputs(before[0])
    return ""


def _hands_on_from(stage: Dataset, source: str) -> bool:
    """Whether a stage passes on, without a copy, tensors that stages of a kind hold in memory."""
    kind = kind_of(type(stage).__name__)
    if kind == source:
        return kind != "Cache" or not cache_file(stage)
    below = inputs(stage)
    return kind in _HANDS_ON and bool(below) and all(_hands_on_from(node, source) for node in below)


def element_bytes(spec: Any, *, is_sliced: bool = False) -> int | None:
    """Returns the bytes of an element; None if a shape is unknown, or for strings and the like.

    Slices of tensors that are in memory anyway count only with their overhead if TensorFlow does
    not copy them.
    """
    import tensorflow as tf

    total = 0
    for part in tf.nest.flatten(spec):
        if not isinstance(part, tf.TensorSpec) or not part.shape.is_fully_defined():
            return None
        if part.dtype in (tf.string, tf.variant, tf.resource):
            return None
        size_bytes = prod(part.shape) * part.dtype.size
        if is_sliced and size_bytes % ALIGNED_BYTES == 0:
            size_bytes = 0
        total += size_bytes + TENSOR_BYTES
    return total
