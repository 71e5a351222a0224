"""Runs a step's graph without computing: which tensors are held when, and what that takes.

TensorFlow runs what is ready, in several threads. Where two things are ready, their order decides
how long tensors are held: the step is simulated with the oldest first and with the newest first,
between which its real order lies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from keras_gpukit.layer_names import is_backward
from keras_gpukit.memory.bfc import BFC, Chunk
from keras_gpukit.memory.kernels import ALIASES, IN_PLACE, NO_BUFFER
from keras_gpukit.memory.step_graph import Node, Source, StepGraph

Order = Literal["oldest first", "newest first", "as written"]
Workspace = Callable[[Node], int]


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory that one or more outputs share."""

    chunk: Chunk
    size_bytes: int
    source: Source
    uses: int = 0


@dataclass(frozen=True)
class Peak:
    """The moment of the highest use.

    Attributes:
        in_use_bytes: As the allocator counts it.
        operation: What ran.
        held: The step's tensors with their sizes.
        workspace_bytes: What the operation itself used while it ran.
        pool_bytes: What the allocator took of the device by the end.
    """

    in_use_bytes: int = 0
    operation: str = ""
    held: tuple[tuple[Source, int], ...] = ()
    workspace_bytes: int = 0
    pool_bytes: int = 0


class Simulation:
    """One run of a step.

    Args:
        graph: The step.
        batch_size: With which batch.
        allocator: Which holds already what stays between steps.
        order: In which operations run.
        workspace: What an operation takes while it runs, in bytes.
        in_place: Whether operations may write over an input that nothing else needs.
        keeps_forward: Whether each tensor is held until the backward pass begins, as a functional
            model's are in eager steps.
        overlaps: Whether an operation that takes workspace runs on while the next one that does
            has started, as with several threads on a CPU.
    """

    def __init__(
        self,
        graph: StepGraph,
        batch_size: int,
        allocator: BFC,
        *,
        order: Order,
        workspace: Workspace,
        in_place: bool = True,
        keeps_forward: bool = False,
        overlaps: bool = False,
    ) -> None:
        self._graph = graph
        self._batch_size = batch_size
        self._allocator = allocator
        self._order = order
        self._workspace = workspace
        self._in_place = in_place
        self._overlaps = overlaps
        self._workspace_before: Chunk | None = None
        self._kept: list[Buffer] | None = [] if keeps_forward else None
        self._buffers: dict[Source, Buffer | None] = {}
        self._live: dict[int, Buffer] = {}
        self._peak = Peak()

    def run(self) -> Peak:
        """Runs all operations.

        Raises:
            MemoryError: If the allocator has a limit and cannot give what is asked.
        """
        for node in self._in_order():
            self._run(node)
        return replace(self._peak, pool_bytes=self._allocator.pool_bytes)

    def _in_order(self) -> Iterator[Node]:
        graph = self._graph
        if self._order == "as written":
            yield from graph.nodes
            return
        pending = {node.name: len({name for name, _ in node.inputs}) for node in graph.nodes}
        ready = deque(name for name, count in pending.items() if not count)
        take = ready.popleft if self._order == "oldest first" else ready.pop
        while ready:
            name = take()
            yield graph.by_name[name]
            for user in graph.users[name]:
                pending[user] -= 1
                if not pending[user]:
                    ready.append(user)

    def _run(self, node: Node) -> None:
        if self._kept is not None and is_backward(node.name):
            kept, self._kept = self._kept, None
            for buffer in kept:
                buffer.uses -= 1
                self._free_if_unused(buffer)
        inputs = [each for each in node.inputs if each[1] >= 0]
        taken = [buffer for buffer in map(self._buffers.get, inputs) if buffer is not None]
        touched = list(taken)
        for index in range(len(node.shapes)):
            source = (node.name, index)
            output = self._output(node, source, inputs, taken)
            self._buffers[source] = output
            if output is not None:
                output.uses += self._graph.uses[source]
                touched.append(output)
        self._note_peak(node)
        for buffer in taken:
            buffer.uses -= 1
        for buffer in touched:
            self._free_if_unused(buffer)

    def _free_if_unused(self, buffer: Buffer) -> None:
        if buffer.uses <= 0 and id(buffer) in self._live:
            del self._live[id(buffer)]
            self._allocator.free(buffer.chunk)

    def _output(
        self, node: Node, source: Source, inputs: list[Source], taken: list[Buffer]
    ) -> Buffer | None:
        if node.operation in NO_BUFFER:
            return None
        if node.operation in ALIASES and inputs:
            return self._buffers.get(inputs[min(source[1], len(inputs) - 1)])
        size_bytes = self._graph.size_bytes(source, self._batch_size)
        if not size_bytes:
            return None
        if self._in_place and node.operation in IN_PLACE and source[1] == 0:
            for buffer in taken:
                # The only uses left are this operation's own.
                if buffer.size_bytes == size_bytes and buffer.uses == taken.count(buffer):
                    return buffer
        buffer = Buffer(self._allocator.allocate(size_bytes), size_bytes, source)
        self._live[id(buffer)] = buffer
        if self._kept is not None:
            buffer.uses += 1
            self._kept.append(buffer)
        return buffer

    def _note_peak(self, node: Node) -> None:
        workspace_bytes = self._workspace(node)
        allocator = self._allocator
        chunk = allocator.allocate(workspace_bytes) if workspace_bytes else None
        if allocator.in_use_bytes > self._peak.in_use_bytes:
            held = tuple((each.source, each.size_bytes) for each in self._live.values())
            self._peak = Peak(allocator.in_use_bytes, node.name, held, workspace_bytes)
        if chunk is not None:
            ended = self._workspace_before if self._overlaps else chunk
            self._workspace_before = chunk
            if ended is not None:
                allocator.free(ended)
