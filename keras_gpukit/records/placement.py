"""Where each operation of the training step ran, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FallbackCause = Literal[
    "no such device",
    "no kernel",
    "dtype",
    "host function",
    "compiled",
    "variable elsewhere",
    "requested",
    "host memory",
]
"""Why operations are where they are, what is most likely a mistake coming first."""


@dataclass(frozen=True)
class Fallback:
    """Operations of one kind on the CPU that a GPU run would want on a GPU.

    Attributes:
        operation: TensorFlow operation type, such as "MatMul".
        count: How many of them.
        cause: Which kind of reason.
        reason: The reason in words.
        names: Names of a few of them, the layer's name included where TensorFlow kept it.
    """

    operation: str
    count: int
    cause: FallbackCause
    reason: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedOperations:
    """Operations of one type in one layer that are on one device for one reason.

    Attributes:
        operation: TensorFlow operation type.
        layer: The layer they belong to, as "backbone/conv2d"; None for those of no layer, such as
            the optimizer's.
        device: Where they run: "GPU:0". With XLA, where the compiled part runs that they are in.
        count: How many of them.
        requested: The device that `tf.device` or a strategy asked for; None where none was.
        expected: Whether that is where they were asked to be, or, where no device was asked for,
            a GPU if there is one.
        cause: Which kind of reason; None where they are as expected, or the reason is not known.
        reason: The reason in words.
        compiled: Whether XLA compiled them into a larger kernel.
    """

    operation: str
    layer: str | None
    device: str
    count: int
    requested: str | None = None
    expected: bool = True
    cause: FallbackCause | None = None
    reason: str | None = None
    compiled: bool = False


@dataclass(frozen=True)
class CompiledPart:
    """A part of the step that XLA compiles as a whole.

    Attributes:
        name: Name of the call in the step's graph.
        device: Where it runs.
        operations: How many operations it has in the graph before compilation.
    """

    name: str
    device: str
    operations: int


@dataclass(frozen=True)
class CopiedTensor:
    """A tensor that one device sends to another in each step.

    Attributes:
        operation: Name of the operation that made it, layer included.
        layer: The operation's layer; None for one of no layer.
        dtype: Such as "float32".
        shape: With the batch of the first step.
        size_bytes: Its size.
    """

    operation: str
    layer: str | None
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class DeviceCopies:
    """What one device sends to another in each step.

    Without what only keeps an order and holds no numbers, which `transfers` counts too, and without
    what collectives such as NCCL exchange.

    Attributes:
        source: Such as "CPU:0".
        target: Such as "GPU:0".
        count: Tensors.
        size_bytes: Their size together, of those whose size is known; None where no size is.
        unknown: How many of them have an unknown size, such as text.
        in_loops: How many of them are sent within a loop of the model, each time it turns; they
            are counted once.
        host_only: How many of them are in host memory on both devices and cross no bus, such as
            shapes; their size is not counted.
        largest: The largest, at most five.
    """

    source: str
    target: str
    count: int
    size_bytes: int | None
    unknown: int = 0
    in_loops: int = 0
    host_only: int = 0
    largest: tuple[CopiedTensor, ...] = ()


@dataclass(frozen=True)
class PlacementRecord:
    """Real placement of the training step, read after TensorFlow's placer and optimizer.

    Attributes:
        operations: Count by device ("GPU:0", "CPU:0") and operation type.
        fallbacks: Operations on the CPU although there is a GPU. On a machine without GPUs: those
            that would be, see `predicted`.
        predicted: Whether `fallbacks` is what would happen on a GPU, there being none here.
        transfers: Copies between devices in each step.
        transfers_between: Those copies by their ends, such as "GPU:0 to GPU:1".
        mechanism: How it was read: "graph", "eager" or "xla".
        unknown_because: Why `operations` is empty, where it is.
        rows: The operations by layer, with requested and actual device and the reason. Those that
            are not where they were expected come first; the commonest among the others follow.
        rows_left_out: Number of rows that there were beyond these.
        operations_left_out: Number of operations in them.
        copies: What devices send to each other in each step, the most bytes first; None where
            that cannot be seen, as in an eager step.
        compiled_parts: The parts of the step that XLA compiles.
        not_compilable: Types of operation outside of these parts that XLA has no kernel for, the
            end of the input pipeline left out; None where XLA compiles nothing, or its kernels
            cannot be listed.
    """

    operations: dict[str, dict[str, int]] = field(default_factory=dict)
    fallbacks: tuple[Fallback, ...] = ()
    predicted: bool = False
    transfers: int | None = None
    mechanism: str | None = None
    unknown_because: str | None = None
    transfers_between: dict[str, int] = field(default_factory=dict)
    rows: tuple[PlacedOperations, ...] = ()
    rows_left_out: int = 0
    operations_left_out: int = 0
    copies: tuple[DeviceCopies, ...] | None = None
    compiled_parts: tuple[CompiledPart, ...] = ()
    not_compilable: tuple[str, ...] | None = None

    @property
    def copied_bytes(self) -> int | None:
        """Bytes copied between devices in each step; None where the size of a tensor is unknown."""
        if self.copies is None or any(each.unknown for each in self.copies):
            return None
        return sum(each.size_bytes or 0 for each in self.copies)

    @property
    def by_device(self) -> dict[str, int]:
        """Number of operations on each device."""
        return {device: sum(counts.values()) for device, counts in self.operations.items()}
