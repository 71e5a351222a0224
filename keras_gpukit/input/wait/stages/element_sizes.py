"""Memory per element of caches and shuffle buffers, as measured by tf.data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from keras_gpukit.input.pipelines.host_buffers import TENSOR_BYTES
from keras_gpukit.input.pipelines.kinds import kind_of
from keras_gpukit.input.wait.stages.readings import without_version
from keras_gpukit.records.host_buffers import BufferKind

Sizes = dict[tuple[BufferKind, int], float]
"""Bytes per element, by kind of stage and place among stages of that kind, from training back."""
_KINDS: dict[str, BufferKind] = {
    "Cache": "cache",
    "Shuffle": "shuffle",
    "ShuffleAndRepeat": "shuffle",
}


def measured_element_bytes(model: Any) -> Sizes:
    """Returns the mean bytes per element, with overhead, of each cache and shuffle buffer.

    Args:
        model: `ModelProto` of the pipeline; None if it was not read.
    """
    sizes: Sizes = {}
    seen: Counter[str] = Counter()
    for number in _line(model, model.output) if model is not None else ():
        node = model.nodes[number]
        kind = _KINDS.get(kind_of(without_version(node.name)))
        if kind is None:
            continue
        below = [model.nodes[each] for each in node.inputs if each in model.nodes]
        # Below a cache there is an extra node for its state: being filled, or being read.
        while below and kind_of(below[0].name).endswith("Impl"):
            below = [model.nodes[each] for each in below[0].inputs if each in model.nodes]
        if below and below[0].num_elements:
            sizes[kind, seen[kind]] = below[0].bytes_produced / below[0].num_elements + TENSOR_BYTES
        seen[kind] += 1
    return sizes


def _line(model: Any, number: int) -> Iterator[int]:
    """Yields the number of a stage, then those of all stages before it."""
    yield number
    for each in model.nodes[number].inputs:
        if each in model.nodes:
            yield from _line(model, each)
