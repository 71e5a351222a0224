"""Health of each GPU: errors, compute mode and other processes, any of which can block training."""

from __future__ import annotations

from dataclasses import dataclass

from keras_gpukit.records.memory import GPUHolder


@dataclass(frozen=True)
class Xid:
    """One GPU error in the kernel's log. NVIDIA numbers the kinds of errors."""

    code: int
    pci_bus_id: str
    text: str


@dataclass(frozen=True)
class GPUHealth:
    """State of one GPU, from NVML and the kernel's log. Fields that neither reports are None.

    Attributes:
        processes: Other processes with memory on the GPU, the largest first. In a container with
            process IDs of its own, this process may be among them.
        ecc_uncorrected: Uncorrected memory errors since the driver was loaded.
        recovery_action: Action that NVML requests after an error, such as "reset the GPU"; "none"
            for none.
    """

    index: int
    compute_mode: str | None = None
    memory_used_bytes: int | None = None
    processes: tuple[GPUHolder, ...] | None = None
    ecc_uncorrected: int | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None
    recovery_action: str | None = None
    xids: tuple[Xid, ...] | None = None


@dataclass(frozen=True)
class CUDAPackage:
    """One of NVIDIA's pip packages that TensorFlow can use.

    Attributes:
        needs: Versions that TensorFlow's extra `and-cuda` requires, such as ">=9.3,<10".
    """

    name: str
    needs: str
    installed: str | None = None
    fits: bool | None = None

    @property
    def lowest(self) -> str | None:
        """Lowest version that meets `needs`; None if `needs` has no lower bound."""
        bounds = (each.strip() for each in self.needs.split(","))
        return next((each[2:] for each in bounds if each[:2] in (">=", "==")), None)


@dataclass(frozen=True)
class Problem:
    """One problem that blocks a GPU or puts it at risk.

    Attributes:
        gpu: Position of the GPU in NVML's order; None if the problem concerns all GPUs.
    """

    code: str
    text: str
    advice: str
    gpu: int | None = None
    blocks: bool = False

    def __str__(self) -> str:
        return f"{self.text} {self.advice}"
