"""Floating-point operations of one training step."""

from __future__ import annotations

from dataclasses import dataclass, field

from keras_gpukit.records.benchmark import Ceilings


@dataclass(frozen=True)
class StepFlops:
    """Operations of one training step of all replicas, counted from its graph.

    A multiplication and an addition are two operations.

    Attributes:
        by_dtype: Operations of products, convolutions and cuDNN's recurrent layers, by the dtype of
            their results.
        moved_bytes: Bytes that the step's operations read and write if each reads its inputs once
            and writes its outputs once. XLA fuses operations, which then move less. Tensors of
            unknown size are left out.
        uncounted: Types of operations whose arithmetic is not in `by_dtype`.
        ceilings: Rates that `keras-gpukit bench` measured on this GPU; None if it has not.
    """

    by_dtype: dict[str, int] = field(default_factory=dict)
    moved_bytes: int | None = None
    uncounted: tuple[str, ...] = ()
    unknown_because: str | None = None
    ceilings: Ceilings | None = None

    @property
    def total(self) -> int | None:
        """Operations of a step; None if they are not all known."""
        return sum(self.by_dtype.values()) if self.unknown_because is None else None
