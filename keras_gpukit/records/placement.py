"""Where each operation of the training step ran, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FallbackCause = Literal["no kernel", "dtype", "host memory", "host function", "requested"]


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
    """

    operations: dict[str, dict[str, int]] = field(default_factory=dict)
    fallbacks: tuple[Fallback, ...] = ()
    predicted: bool = False
    transfers: int | None = None
    mechanism: str | None = None
    unknown_because: str | None = None
    transfers_between: dict[str, int] = field(default_factory=dict)

    @property
    def by_device(self) -> dict[str, int]:
        """Number of operations on each device."""
        return {device: sum(counts.values()) for device, counts in self.operations.items()}
