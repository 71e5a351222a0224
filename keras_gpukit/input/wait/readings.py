"""Readings of tf.data's model of a pipeline, and the measurement computed from several of them.

tf.data models each iterator as a node. A node's processing time does not include its inputs: its
clock is stopped while an input works. The time of a function is that of its operations. Time spent
waiting for another thread counts for no node. See tensorflow/core/framework/model.h and
tensorflow/core/data/captured_function.cc.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from keras_gpukit.input.pipelines.functions import kind_of
from keras_gpukit.input.pipelines.host_buffers import TENSOR_BYTES
from keras_gpukit.input.pipelines.stage import Stage
from keras_gpukit.records.pipeline import BufferKind

# Stages that create an iterator for each element of their first input, or (`REPEATING`) repeatedly.
NESTING = {
    "FlatMap",
    "Interleave",
    "ParallelInterleave",
    "LegacyParallelInterleave",
    "GroupByWindow",
    "GroupByReducer",
}
REPEATING = {"Repeat", "ForeverRepeat", "FiniteRepeat"}
SHUFFLING = {"Shuffle", "ShuffleAndRepeat"}
_BUFFERS: dict[str, BufferKind] = {"Cache": "cache", **dict.fromkeys(SHUFFLING, "shuffle")}
Sizes = dict[tuple[BufferKind, int], float]
"""Bytes per element, by kind of stage and place among stages of that kind, from training back."""


class Node(NamedTuple):
    """An iterator in one reading.

    No other iterator of the pipeline ever has its `id`. Its `kind` is the name in tf.data without a
    version, such as "ParallelMap". `parallelism` threads run its function or read the datasets it
    returns; 1 for a stage that is not asynchronous. A `cycle` of iterators gives elements in turn.
    `buffered` elements are in its buffer if it is asynchronous, `held` ones whatever its kind.
    """

    id: int
    kind: str
    elements: int
    work_s: float
    parallelism: int = 1
    cycle: int | None = None
    buffered: float | None = None
    inputs: tuple[int, ...] = ()
    size_bytes: int = 0
    held: int = 0


class ModelReading(NamedTuple):
    """All iterators of a pipeline at one moment, and the one that training fetches from."""

    nodes: dict[int, Node]
    output: int


@dataclass(frozen=True)
class MeasuredNode:
    """A place in a pipeline, over all iterators that were there.

    Attributes:
        cost_s: Processing seconds per element, without the inputs; None if no element was produced
            between the readings.
        per_batch: Number of elements per batch that left the pipeline.
        cost_per_batch_s: Processing seconds per batch that left the pipeline, without the inputs.
        buffered: Mean number of elements in its buffer; NaN if it is unknown, and None for a stage
            that is not asynchronous.
        copies: Mean number of iterators that worked here at the same time, at least 1.
        nested: Stages of the datasets that its function returns.
        pass_bytes: Total size of the elements of the longest pass that was seen; 0 if unknown.
        asked_parallelism: Setting of `parallelism` where the thread pool allows less; None
            otherwise.
        written: The stage in user code, if it is known; of most it is found by `align`.
        elements: Number of elements that it produced between the readings.
        held: By how many elements its buffer grew between the readings.
    """

    kind: str
    cost_s: float | None
    per_batch: float
    cost_per_batch_s: float
    parallelism: int = 1
    buffered: float | None = None
    copies: float = 1.0
    inputs: tuple[MeasuredNode, ...] = ()
    nested: tuple[MeasuredNode, ...] = ()
    pass_bytes: int = 0
    asked_parallelism: int | None = None
    written: Stage | None = None
    elements: int = 0
    held: int = 0

    def walk(self) -> Iterator[MeasuredNode]:
        """Yields this stage and those before it, back to the sources."""
        yield self
        for stage in (*self.nested, *self.inputs):
            yield from stage.walk()

    def changed(self, change: Callable[[MeasuredNode], MeasuredNode]) -> MeasuredNode:
        """Returns a copy of the pipeline in which a function has changed each stage."""
        inputs = tuple(stage.changed(change) for stage in self.inputs)
        nested = tuple(stage.changed(change) for stage in self.nested)
        return replace(change(self), inputs=inputs, nested=nested)


def read_nodes(model: Any) -> ModelReading:
    """Converts a `ModelProto` to a reading."""
    asynchronous = _asynchronous(model.DESCRIPTOR.file)
    nodes = {}
    for number, node in model.nodes.items():
        settings = {setting.name: setting for setting in node.parameters}
        # The legacy parallel interleave has a thread for each iterator of its cycle.
        cycle = settings.get("cycle_length")
        threads = settings.get("parallelism") or cycle
        is_asynchronous = node.node_class in asynchronous
        nodes[number] = Node(
            id=number,
            kind=re.sub(r"V\d+$", "", node.name),
            elements=node.num_elements,
            work_s=node.processing_time * 1e-9,
            parallelism=_whole(threads) if threads and is_asynchronous else 1,
            cycle=_whole(cycle) if cycle else None,
            buffered=float(node.buffered_elements) if is_asynchronous else None,
            inputs=tuple(node.inputs),
            size_bytes=node.bytes_produced,
            held=node.buffered_elements,
        )
    return ModelReading(nodes, model.output)


def measured_element_bytes(model: Any) -> Sizes:
    """Returns the mean bytes per element, with overhead, of each cache and shuffle buffer."""
    sizes: Sizes = {}
    seen: Counter[str] = Counter()
    nodes = read_nodes(model).nodes if model is not None else {}

    def before(node: Node) -> list[Node]:
        return [nodes[number] for number in node.inputs if number in nodes]

    def line(node: Node) -> Iterator[Node]:
        yield node
        for source in before(node):
            yield from line(source)

    for node in line(nodes[model.output]) if nodes else ():
        kind = _BUFFERS.get(kind_of(node.kind))
        if kind is None:
            continue
        below = before(node)
        # Below a cache there is an extra node for its state: being filled, or being read.
        while below and kind_of(below[0].kind).endswith("Impl"):
            below = before(below[0])
        if below and below[0].elements:
            sizes[kind, seen[kind]] = below[0].size_bytes / below[0].elements + TENSOR_BYTES
        seen[kind] += 1
    return sizes


@functools.cache
def _asynchronous(file: Any) -> frozenset[int]:
    """Returns the `NodeClass` numbers of asynchronous stages, from the file descriptor."""
    classes = file.enum_types_by_name["NodeClass"].values_by_name
    return frozenset(value.number for name, value in classes.items() if name.startswith("ASYNC"))


def _whole(setting: Any) -> int:
    # Autotuning tries out numbers in `value`; `state_value`, if set, is the number in effect.
    return max(1, int(setting.state_value or setting.value))
