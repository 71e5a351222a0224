"""Simulates the memory use of a step's graph: which tensors are held when, and how large they are.

TensorFlow runs operations as soon as they are ready, in several threads. If several operations are
ready, their order decides how long tensors are held. The step is therefore simulated in two orders:
oldest first and newest first. The real order lies between them.

The allocator is a model of TensorFlow's best-fit-with-coalescing (BFC) allocator. It shows how much
memory a tensor really takes, and when memory is left in pieces that are too small. The rules are
those of `bfc_allocator.cc`: Sizes are multiples of 256 bytes. The allocator takes the smallest free
chunk that fits. It splits the chunk only if the chunk is at least twice as large as the request, or
at least 128 MiB larger. It takes memory from the device in regions of doubling size. Therefore a
tensor may take up to twice its size.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from keras_gpukit.layer_names import is_backward
from keras_gpukit.memory.kernels import ALIASES, IN_PLACE, NO_BUFFER
from keras_gpukit.memory.step_graph import GraphNode, Source, StepGraph

GRANULE_BYTES = 256
MOST_WASTED_BYTES = 128 * 2**20
FIRST_REGION_BYTES = 2 * 2**20


@dataclass(eq=False, slots=True)
class Chunk:
    """A contiguous part of a region; there is a gap between the addresses of two regions."""

    address: int
    size: int
    free: bool = True
    before: Chunk | None = None
    after: Chunk | None = None


class BFC:
    """Allocates and frees chunks by the rules of TensorFlow's allocator.

    Attributes:
        in_use_bytes: Total size of the chunks in use, which is what TensorFlow reports.
        pool_bytes: Total size of the regions taken from the device.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.in_use_bytes = self.pool_bytes = 0
        self._limit_bytes = limit_bytes
        self._region_bytes = FIRST_REGION_BYTES
        self._next_address = 0
        self._free: list[tuple[int, int, Chunk]] = []  # sizes and addresses, in ascending order

    def allocate(self, size_bytes: int) -> Chunk:
        """Allocates a chunk; raises `MemoryError` if it does not fit within the limit."""
        size = -(-max(size_bytes, 1) // GRANULE_BYTES) * GRANULE_BYTES
        at = bisect_left(self._free, (size,))
        if at == len(self._free):
            self._add_region(size)
            at = bisect_left(self._free, (size,))
        chunk = self._free.pop(at)[2]
        if chunk.size >= 2 * size or chunk.size - size >= MOST_WASTED_BYTES:
            rest = Chunk(chunk.address + size, chunk.size - size, True, chunk, chunk.after)
            if chunk.after is not None:
                chunk.after.before = rest
            chunk.after, chunk.size = rest, size
            self._keep(rest)
        chunk.free = False
        self.in_use_bytes += chunk.size
        return chunk

    def free(self, chunk: Chunk) -> None:
        """Frees a chunk and merges it with its free neighbours."""
        self.in_use_bytes -= chunk.size
        chunk.free = True
        for left, right in ((chunk, chunk.after), (chunk.before, chunk)):
            if left is None or right is None or not (left.free and right.free):
                continue
            self._forget(right if left is chunk else left)
            left.size += right.size
            left.after = right.after
            if right.after is not None:
                right.after.before = left
            chunk = left
        self._keep(chunk)

    def _add_region(self, size: int) -> None:
        grew = self._region_bytes < size
        while self._region_bytes < size:
            self._region_bytes *= 2
        region_bytes = self._region_bytes
        if self._limit_bytes is not None:
            region_bytes = min(region_bytes, self._limit_bytes - self.pool_bytes)
            if region_bytes < size:
                raise MemoryError
        self._keep(Chunk(self._next_address, region_bytes))
        self.pool_bytes += region_bytes
        self._next_address += region_bytes + GRANULE_BYTES
        if not grew:
            self._region_bytes *= 2

    def _keep(self, chunk: Chunk) -> None:
        insort(self._free, (chunk.size, chunk.address, chunk))

    def _forget(self, chunk: Chunk) -> None:
        del self._free[bisect_left(self._free, (chunk.size, chunk.address))]


Order = Literal["oldest first", "newest first", "as written"]
Workspace = Callable[[GraphNode], int]


@dataclass(eq=False, slots=True)
class Buffer:
    """A piece of memory that one or more outputs of operations share."""

    chunk: Chunk
    size_bytes: int
    source: Source
    uses: int = 0


@dataclass(frozen=True)
class Peak:
    """The moment of a step's highest memory use."""

    in_use_bytes: int = 0
    held: tuple[tuple[Source, int], ...] = ()


@dataclass(eq=False)
class Simulation:
    """One simulated run of a training step.

    Attributes:
        order: Which of the operations that are ready runs first. "As written" is the order of the
            graph, as in eager steps: then no operation overwrites an input that is not needed any
            more.
        allocator: Allocator that already holds the memory that stays allocated between steps.
        workspace: Returns the bytes of workspace that an operation needs while it runs.
        keeps_forward: Whether each tensor is held until the backward pass starts. This is the case
            in eager steps of a functional model.
    """

    graph: StepGraph
    batch_size: int
    allocator: BFC
    order: Order
    workspace: Workspace
    keeps_forward: bool = False

    def __post_init__(self) -> None:
        self._kept: list[Buffer] | None = [] if self.keeps_forward else None
        self._buffers: dict[Source, Buffer | None] = {}
        self._live: dict[int, Buffer] = {}
        self._peak = Peak()

    def run(self) -> Peak:
        """Runs all operations and returns the peak; raises `MemoryError` beyond a limit."""
        for node in self._in_order():
            self._run(node)
        return self._peak

    def _in_order(self) -> Iterator[GraphNode]:
        graph = self.graph
        if self.order == "as written":
            yield from graph.nodes
            return
        pending = {node.name: len({name for name, _ in node.inputs}) for node in graph.nodes}
        ready = deque(name for name, count in pending.items() if not count)
        take = ready.popleft if self.order == "oldest first" else ready.pop
        while ready:
            name = take()
            yield graph.by_name[name]
            for user in graph.users[name]:
                pending[user] -= 1
                if not pending[user]:
                    ready.append(user)

    def _run(self, node: GraphNode) -> None:
        if self._kept is not None and is_backward(node.name):
            kept, self._kept = self._kept, None
            for buffer in kept:
                buffer.uses -= 1
                self._free_if_unused(buffer)
        inputs = [source for source in node.inputs if source[1] >= 0]
        taken = [buffer for buffer in map(self._buffers.get, inputs) if buffer is not None]
        touched = list(taken)
        for index in range(len(node.shapes)):
            source = (node.name, index)
            output = self._output(node, source, inputs, taken)
            self._buffers[source] = output
            if output is not None:
                output.uses += self.graph.uses[source]
                touched.append(output)
        workspace_bytes, allocator = self.workspace(node), self.allocator
        chunk = allocator.allocate(workspace_bytes) if workspace_bytes else None
        if allocator.in_use_bytes > self._peak.in_use_bytes:
            held = tuple((buffer.source, buffer.size_bytes) for buffer in self._live.values())
            self._peak = Peak(allocator.in_use_bytes, held)
        if chunk is not None:
            allocator.free(chunk)
        for buffer in taken:
            buffer.uses -= 1
        for buffer in touched:
            self._free_if_unused(buffer)

    def _free_if_unused(self, buffer: Buffer) -> None:
        if buffer.uses <= 0 and id(buffer) in self._live:
            del self._live[id(buffer)]
            self.allocator.free(buffer.chunk)

    def _output(
        self, node: GraphNode, source: Source, inputs: list[Source], taken: list[Buffer]
    ) -> Buffer | None:
        if node.operation in NO_BUFFER:
            return None
        if node.operation in ALIASES and inputs:
            return self._buffers.get(inputs[min(source[1], len(inputs) - 1)])
        size_bytes = self.graph.size_bytes(source, self.batch_size)
        if not size_bytes:
            return None
        in_place = self.order != "as written" and node.operation in IN_PLACE
        if in_place and source[1] == 0:
            for buffer in taken:
                # The only uses left are this operation's own.
                if buffer.size_bytes == size_bytes and buffer.uses == taken.count(buffer):
                    return buffer
        buffer = Buffer(self.allocator.allocate(size_bytes), size_bytes, source)
        self._live[id(buffer)] = buffer
        if self._kept is not None:
            buffer.uses += 1
            self._kept.append(buffer)
        return buffer
