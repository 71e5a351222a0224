"""Represents a training step as a graph of operations with known tensor sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

Source = tuple[str, int]
"""One output of an operation: the operation's name and the output's index. The index is -1 for a
control dependency, where the operation only has to run earlier."""
TRACED_BATCH = 7919
"""Batch size for tracing a step. It is a large prime because other dimensions are unlikely to be
multiples of it."""


@dataclass(frozen=True)
class GraphNode:
    """One operation of a training step.

    Attributes:
        name: Name of the operation in the graph.
        operation: Type of the operation, such as "MatMul".
        inputs: Outputs that the operation reads, and its control dependencies.
        shapes: Shape of each output; None if unknown.
        item_bytes: Bytes per element of each output; 0 for strings, resource handles and variants.
    """

    name: str
    operation: str
    inputs: tuple[Source, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    item_bytes: tuple[int, ...]


@dataclass(frozen=True)
class StepGraph:
    """The operations of one training step, traced with `TRACED_BATCH` examples or a fixed batch.

    Attributes:
        nodes: The operations in the order of the graph: as created, unless it was optimized.
        results: Outputs that the step returns.
        scales: Whether the graph is valid for other batch sizes too.
        loops: Types of the operations that contain loops, branches or functions. The memory used
            inside them is unknown.
    """

    nodes: tuple[GraphNode, ...]
    results: frozenset[Source]
    scales: bool = True
    loops: frozenset[str] = frozenset()

    @cached_property
    def by_name(self) -> Mapping[str, GraphNode]:
        """The operations, by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def users(self) -> Mapping[str, Sequence[str]]:
        """Names of the operations that depend on an operation, by its name."""
        users: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in {name for name, _ in node.inputs}:
                users[name].append(node.name)
        return users

    @cached_property
    def uses(self) -> Counter[Source]:
        """Number of times that each output is read by operations or returned by the step."""
        uses = Counter(each for node in self.nodes for each in node.inputs if each[1] >= 0)
        uses.update(self.results)
        return uses

    def shape(self, source: Source, batch_size: int) -> tuple[int, ...] | None:
        """Returns the shape of an output for a batch size; None if unknown."""
        node = self.by_name.get(source[0])
        if node is None or not 0 <= source[1] < len(node.shapes):
            return None
        shape = node.shapes[source[1]]
        if shape is None or not self.scales:
            return shape
        return tuple(
            each if each % TRACED_BATCH or not each else each // TRACED_BATCH * batch_size
            for each in shape
        )

    def size_bytes(self, source: Source, batch_size: int) -> int:
        """Returns the size of an output in bytes for a batch size; 0 if unknown."""
        shape = self.shape(source, batch_size)
        if shape is None or any(each < 0 for each in shape):
            return 0
        return prod(shape) * self.by_name[source[0]].item_bytes[source[1]]
