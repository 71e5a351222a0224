"""Results of `keras-gpukit bench`, and the floating-point operations of a step next to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from keras_gpukit.records.names import SCHEMA
from keras_gpukit.records.tuning import Rate

DeviceKind = Literal["GPU", "CPU"]


@dataclass(frozen=True)
class Ceilings:
    """Highest rates that plain products and copies reached on a device.

    Attributes:
        tflops: TFLOP/s of square matrix products, by precision: "float32", "TF32", "bfloat16" …
        device_gb_per_s: GB/s with which arrays in the device's memory were read and written.
        to_device_gb_per_s: GB/s of copies from the host's memory; None on a CPU.
    """

    tflops: dict[str, float]
    device_gb_per_s: float
    to_device_gb_per_s: float | None = None


@dataclass(frozen=True)
class BenchmarkRow:
    """One model trained in one setting; without a rate and a reason if there was no time for it.

    Attributes:
        precision: "float32", "TF32", or the type of Keras' mixed policy.
        batch: Examples in a batch. A CPU gets smaller batches than a GPU.
        rate: Examples per second.
        failed_because: Why it failed.
    """

    device: DeviceKind
    model: str
    precision: str
    jit: bool
    batch: int
    rate: Rate | None = None
    failed_because: str | None = None


@dataclass(frozen=True)
class DeviceBenchmark:
    """Measurements of one device.

    Attributes:
        cores: Number of cores that the process could use.
        date: When it was measured, in ISO 8601.
        name: Product name of the GPU or processor; None if the device was not used.
        rows: Rows, the most important first.
        failed_because: Why the device, or its ceilings, could not be measured.
    """

    kind: DeviceKind
    cores: int
    date: str
    name: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    ceilings: Ceilings | None = None
    rows: tuple[BenchmarkRow, ...] = ()
    failed_because: str | None = None


@dataclass(frozen=True)
class MachineBenchmark:
    """Measurements of this machine.

    Attributes:
        seconds: The time budget.
        interrupted: Whether Ctrl-C ended it.
        schema: Version of the layout.
    """

    devices: tuple[DeviceBenchmark, ...]
    seconds: float
    interrupted: bool = False
    schema: int = SCHEMA


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
