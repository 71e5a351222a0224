"""The caches and shuffle buffers of a pipeline, and how many elements each will hold.

The pipeline is read as it was written; none of it runs. Stages are followed from training back to
the sources, with how many of their elements a pass and a step ask for. What is behind a stage that
makes another number of elements than it reads, such as a filter, is asked for an unknown number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from keras_gpukit.pipelines.kinds import kind_of
from keras_gpukit.pipelines.places import name_and_location
from keras_gpukit.pipelines.structure import (
    Dataset,
    cache_file,
    functions_of,
    inputs,
    number,
    unwrapped,
)
from keras_gpukit.records.host_buffers import BufferKind, HostBuffer

TENSOR_BYTES = 128
"""What a tensor takes in addition to its values; our choice, see `benchmarks/host_buffers.py`."""
ALIGNED_BYTES = 64
"""TensorFlow takes a slice of a tensor without a copy where it begins at a multiple of this."""
_BATCHES = ("Batch", "PaddedBatch")
_HANDS_ON = frozenset(
    {"Prefetch", "Options", "Take", "Skip", "Repeat", "AssertCardinality", "Cache", "Shuffle"}
    | {"IgnoreErrors", "UnaryUnchangedStructure"}
)
"""Stages whose elements are the very tensors that they read."""
_SAME_COUNT = _HANDS_ON | {"Map", "Zip"}
_UNKNOWN_COUNT = "how many elements there are is not known"
_UNKNOWN_SIZE = "the shapes of its elements are not known"


@dataclass(frozen=True)
class _Asked:
    """What is asked of a stage.

    Attributes:
        elements: In a pass, at most.
        per_step: In a training step; None where that is unknown.
        ahead: Before the first step, to fill shuffle buffers.
        is_cached: Whether the very tensors are kept by a cache after this stage.
    """

    elements: float = math.inf
    per_step: float | None = 1.0
    ahead: int = 0
    is_cached: bool = False


def host_buffers(dataset: Dataset, steps: int | None = None) -> tuple[HostBuffer, ...]:
    """Returns the stages of a dataset that keep elements in host memory.

    Left out are caches in files, and stages that hold tensors which are in memory anyway: slices of
    arrays, and what a cache next to them keeps.

    Args:
        dataset: What training takes its batches from.
        steps: How many steps the run will take of it; None where that is not known.
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
    """Yields the stages, and whether each holds what is not in memory anyway."""
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
    for each in below:
        yield from _buffers(each, asked)


def _cache(stage: Dataset, asked: _Asked) -> HostBuffer:
    most = min(_count(stage), asked.elements)
    return _buffer(stage, f"cache(){_after(stage)}", "cache", most, asked)


def _shuffle(stage: Dataset, below: Dataset, asked: _Asked) -> HostBuffer:
    size = number(stage, "buffer_size")  # below 0, it holds everything
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
    """Elements of a stage, by what tf.data knows without running it; infinite if it does not."""
    count = int(stage.cardinality())
    return math.inf if count < 0 else count


def _after(stage: Dataset) -> str:
    """Which function made what a stage holds."""
    before = inputs(stage)
    while len(before) == 1:
        for function, _ in functions_of(before[0]):
            name, _ = name_and_location(function)
            return f" after {name}" if name else ""
        before = inputs(before[0])
    return ""


def _hands_on_from(stage: Dataset, source: str) -> bool:
    """Whether a stage hands on the very tensors of stages of a kind that hold them in memory."""
    kind = kind_of(type(stage).__name__)
    if kind == source:
        return kind != "Cache" or not cache_file(stage)
    below = inputs(stage)
    return kind in _HANDS_ON and bool(below) and all(_hands_on_from(each, source) for each in below)


def element_bytes(spec: Any, *, is_sliced: bool = False) -> int | None:
    """Returns the bytes of an element; None for shapes that are not known, and for texts.

    Args:
        spec: A dataset's `element_spec`.
        is_sliced: Whether elements are slices of tensors that are in memory anyway.
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
