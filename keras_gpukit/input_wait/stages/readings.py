"""Readings of tf.data's model of a pipeline, and what several of them say together.

tf.data models each iterator as a node. A node's processing time is its own: the clock of the node
that asks is stopped while its input works, and functions are timed by their operations. Time spent
waiting for another thread counts for no node. See tensorflow/core/framework/model.h and
tensorflow/core/data/captured_function.cc.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

# Stages that make an iterator for each element of their first input, or again and again.
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


class Node(NamedTuple):
    """An iterator in one reading.

    Attributes:
        id: Its number, which no other iterator of the pipeline ever has.
        kind: Its name in tf.data, without a version: "ParallelMap".
        elements: Elements it produced so far.
        work_s: Its own processing time so far.
        parallelism: Threads at work on its function, or on what that returns.
        cycle: How many iterators it takes elements from in turn; None where it has one input.
        buffered: Elements in its buffer; None where it is no asynchronous stage.
        inputs: The numbers of its inputs.
    """

    id: int
    kind: str
    elements: int
    work_s: float
    parallelism: int = 1
    cycle: int | None = None
    buffered: float | None = None
    inputs: tuple[int, ...] = ()


class ModelReading(NamedTuple):
    """All iterators of a pipeline at one moment.

    Attributes:
        nodes: By number.
        output: The number of the one that training asks.
    """

    nodes: dict[int, Node]
    output: int


@dataclass(frozen=True)
class MeasuredNode:
    """A place in a pipeline, over all iterators that stood there.

    Attributes:
        kind: As of `Node`.
        cost_s: Own time for each element; None where none was seen to be produced.
        per_batch: Elements for each one that left the pipeline.
        cost_per_batch_s: Own time for each element that left the pipeline.
        parallelism: As of `Node`.
        buffered: Mean elements in its buffer; None where it is no asynchronous stage.
        copies: Mean number of iterators that were here at the same time.
        inputs: What it reads from.
        nested: What its function returns for each element.
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


def without_version(kind: str) -> str:
    """Returns a name of tf.data's without its version: "Batch" for "BatchV2"."""
    stem, mark, version = kind.rpartition("V")
    return stem if mark and version.isdigit() else kind


def read_nodes(model: Any) -> ModelReading:
    """Returns a `ModelProto` as a reading."""
    asynchronous = _asynchronous(model.DESCRIPTOR.file)
    nodes = {}
    for number, node in model.nodes.items():
        settings = {setting.name: setting for setting in node.parameters}
        # The older parallel interleave has a thread for each iterator of its cycle.
        cycle = settings.get("cycle_length")
        threads = settings.get("parallelism") or cycle
        is_asynchronous = node.node_class in asynchronous
        nodes[number] = Node(
            id=number,
            kind=without_version(node.name),
            elements=node.num_elements,
            work_s=node.processing_time * 1e-9,
            parallelism=_whole(threads) if threads and is_asynchronous else 1,
            cycle=_whole(cycle) if cycle else None,
            buffered=float(node.buffered_elements) if is_asynchronous else None,
            inputs=tuple(node.inputs),
        )
    return ModelReading(nodes, model.output)


@functools.cache
def _asynchronous(file: Any) -> frozenset[int]:
    """The numbers of the classes of asynchronous stages, by the descriptor of tf.data's model."""
    classes = file.enum_types_by_name["NodeClass"].values_by_name
    return frozenset(each.number for name, each in classes.items() if name.startswith("ASYNC"))


def _whole(setting: Any) -> int:
    # What autotuning tries out is `value`; what holds is `state_value`, where it keeps one.
    return max(1, int(setting.state_value or setting.value))
