"""A training step as a graph of operations whose tensors have known sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

Source = tuple[str, int]
"""An operation's output: its name and which one; -1 where it only has to run before."""
TRACED_BATCH = 7919
"""The batch a step is traced with: a prime, of which no other dimension is likely a multiple."""


@dataclass(frozen=True)
class Node:
    """One operation.

    Attributes:
        name: Its name.
        operation: Its type.
        inputs: What it takes, and what has to run before it.
        shapes: Of its outputs; None for one that is not known.
        item_bytes: Of a number in each output; 0 for what is no tensor in memory.
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
        nodes: In the order in which they were made.
        results: What is asked of the step.
        scales: Whether the batch can be another one.
        loops: Types of operations with loops or branches in them, whose memory is not seen.
    """

    nodes: tuple[Node, ...]
    results: frozenset[Source]
    scales: bool = True
    loops: frozenset[str] = frozenset()

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def users(self) -> Mapping[str, Sequence[str]]:
        """By an operation's name, those that run after it."""
        users: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in {name for name, _ in node.inputs}:
                users[name].append(node.name)
        return users

    @cached_property
    def uses(self) -> Counter[Source]:
        """How often each output is taken."""
        uses = Counter(each for node in self.nodes for each in node.inputs if each[1] >= 0)
        uses.update(self.results)
        return uses

    def shape(self, source: Source, batch_size: int) -> tuple[int, ...] | None:
        """An output's shape with a batch."""
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
        """An output's size with a batch; 0 where it is not known."""
        shape = self.shape(source, batch_size)
        if shape is None or any(each < 0 for each in shape):
            return 0
        return prod(shape) * self.by_name[source[0]].item_bytes[source[1]]
