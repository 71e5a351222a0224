"""Floating-point operations of one training step, and how fast this machine can compute them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ceilings:
    """Rates that a GPU reaches at most.

    Attributes:
        tflops: TFLOP/s of large products by precision: "float64", "float32" (without Tensor Cores),
            "TF32", "float16" and "bfloat16". A precision that the GPU lacks is left out.
        device_gb_per_s: GB/s that it reads and writes in its own memory.
        measured: Whether `keras-gpukit bench` measured them on this machine, rather than being
            NVIDIA's figures.
    """

    tflops: dict[str, float]
    device_gb_per_s: float | None = None
    measured: bool = False


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
        unknown_because: Why the count is unknown or incomplete.
        ceilings: Rates that `keras-gpukit bench` measured on this machine; None if it has not run.
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
