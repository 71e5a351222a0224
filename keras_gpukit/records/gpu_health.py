"""What can keep training from a GPU that is there: its errors, its mode, other processes."""

from __future__ import annotations

from dataclasses import dataclass

from keras_gpukit.records.memory import GPUHolder


@dataclass(frozen=True)
class Xid:
    """One error of a GPU in the kernel's log. NVIDIA numbers their kinds.

    Attributes:
        code: Its number.
        pci_bus_id: Where the GPU is, such as "0000:65:00".
        text: What the log says of it.
    """

    code: int
    pci_bus_id: str
    text: str


@dataclass(frozen=True)
class GPUHealth:
    """One GPU as NVML and the kernel's log describe it. What neither reports is None.

    Attributes:
        index: Position in NVML's order.
        compute_mode: "default", "exclusive process" or "prohibited".
        memory_used_bytes: In use by all processes.
        processes: Those with memory on the GPU, this one not among them.
        ecc_uncorrected: Uncorrected errors of its memory since the driver was loaded.
        remapping_pending: Whether memory with errors is to be replaced at the next reset.
        remapping_failed: Whether memory with errors could not be replaced.
        recovery_action: What NVML asks for after an error, such as "reset the GPU".
        xids: Its errors in the kernel's log, the latest last.
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
        name: Such as "nvidia-cudnn-cu12".
        needs: The versions that TensorFlow's extra `and-cuda` asks for, such as ">=9.3,<10".
        installed: The installed version; None where it is not.
        fits: Whether the installed version is one of them; None where it is not installed.
    """

    name: str
    needs: str
    installed: str | None = None
    fits: bool | None = None

    @property
    def lowest(self) -> str | None:
        """The lowest version that TensorFlow asks for."""
        bounds = (each.strip() for each in self.needs.split(","))
        return next((each[2:] for each in bounds if each.startswith(">=")), None)


@dataclass(frozen=True)
class Problem:
    """One thing that blocks a GPU, or puts it at risk.

    Attributes:
        code: Stable name, such as "gpu_lost".
        text: What is the case.
        advice: How to fix it.
        gpu: The GPU's position in NVML's order; None where it concerns all.
        blocks: Whether no training can start there until it is fixed.
    """

    code: str
    text: str
    advice: str
    gpu: int | None = None
    blocks: bool = False

    def __str__(self) -> str:
        return f"{self.text} {self.advice}"
