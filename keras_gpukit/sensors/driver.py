"""The NVIDIA driver, every GPU that it lists, and the processes on them, through NVML."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from keras_gpukit.records.installation import Driver, DriverGPU, MIGInstance


def read_driver(nvml: Any = None) -> Driver:
    """Reads the driver and its GPUs from NVML; never raises."""
    module = os.path.exists("/proc/driver/nvidia/version") if sys.platform == "linux" else None
    try:
        nvml = nvml or import_module("pynvml")
        nvml.nvmlInit()
        try:
            cuda = nvml.nvmlSystemGetCudaDriverVersion()
            return Driver(
                version=nvml.nvmlSystemGetDriverVersion(),
                cuda_version=(cuda // 1000, cuda % 1000 // 10),
                gpus=tuple(_describe(nvml, index) for index in range(nvml.nvmlDeviceGetCount())),
                kernel_module=module,
            )
        finally:
            nvml.nvmlShutdown()
    except Exception as error:
        return Driver(error=error_name(error), kernel_module=module)


def error_name(error: Exception) -> str:
    """Returns NVML's name for an error, such as "LibraryNotFound"."""
    return type(error).__name__.removeprefix("NVMLError_")


def ask(nvml: Any, question: str, *args: Any) -> Any:
    """Calls a function of NVML by name; returns None on an error of NVML.

    Some GPUs do not support every function, such as a GPU without memory of its own.
    """
    try:
        return getattr(nvml, question)(*args)
    except nvml.NVMLError:
        return None


def _describe(nvml: Any, index: int) -> DriverGPU:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:  # NVML still counts a GPU that fell off the bus
        return DriverGPU(index=index, error=error_name(error))
    memory = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    capability = ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    bus = ask(nvml, "nvmlDeviceGetPciInfo", handle)
    return DriverGPU(
        index=index,
        name=ask(nvml, "nvmlDeviceGetName", handle),
        uuid=ask(nvml, "nvmlDeviceGetUUID", handle),
        memory_bytes=None if memory is None else memory.total,
        compute_capability=capability,
        pci_bus_id=None if bus is None else bus.busId,
        mig=_instances(nvml, handle),
    )


def _instances(nvml: Any, handle: Any) -> tuple[MIGInstance, ...] | None:
    """Returns the instances of a GPU in MIG mode; None if it is not in MIG mode."""
    modes = ask(nvml, "nvmlDeviceGetMigMode", handle)
    if modes is None or not modes[0]:
        return None
    found = []
    for index in range(ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        instance = ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if instance is None:  # NVML numbers all slots, and most are empty
            continue
        memory = ask(nvml, "nvmlDeviceGetMemoryInfo", instance)
        found.append(
            MIGInstance(
                uuid=ask(nvml, "nvmlDeviceGetUUID", instance),
                name=ask(nvml, "nvmlDeviceGetName", instance),
                memory_bytes=None if memory is None else memory.total,
            )
        )
    return tuple(found)


# Number of the machine's own PID namespace, the first one, in Linux since version 3.8:
# PROC_PID_INIT_INO in include/linux/proc_ns.h.
_FIRST_NAMESPACE = "pid:[4026531836]"


@dataclass(frozen=True)
class ProcessMemory:
    """Memory of one GPU by process: of this one, all others together, and each other one by PID.

    An unknown figure is None, with the reason.
    """

    own_bytes: int | None = None
    others_bytes: int | None = None
    others: dict[int, int] = field(default_factory=dict)
    unknown_because: str | None = None


def in_first_namespace() -> bool:
    """Whether PIDs here are the machine's, as NVML's are; this is not so in most containers."""
    if sys.platform != "linux":
        return True
    try:
        return os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:
        return False


def exists(pid: int) -> bool:
    """Whether a process with this PID is visible here."""
    return os.path.exists(f"/proc/{pid}")


def program_name(pid: int) -> str | None:
    """Returns the name of a process's program; None if it is not visible."""
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return None


def memory_by_process(processes: Iterable[Any] | None, pid: int) -> ProcessMemory:
    """Separates this process's memory from that of others.

    In a container, drivers before 535 or so list the machine's PIDs. Later drivers list the
    container's PIDs, some of them with 0 bytes.
    https://github.com/NVIDIA/nvidia-docker/issues/1483
    https://github.com/NVIDIA/open-gpu-kernel-modules/pull/614
    """
    if processes is None:
        return ProcessMemory(unknown_because="the driver does not list the GPU's processes")
    used: dict[int, int | None] = {}
    for process in processes:  # in MIG mode, a process has an entry for each instance
        before = used.get(process.pid, 0)
        more = process.usedGpuMemory
        used[process.pid] = None if before is None or more is None else before + more
    if pid not in used:
        return ProcessMemory(unknown_because=_not_listed())
    own = used.pop(pid)
    if own is None:
        return ProcessMemory(unknown_because="the driver does not report memory by process")
    if in_first_namespace():
        others = {other: held for other, held in used.items() if held is not None}
        if len(others) < len(used):
            because = "the driver does not report the memory of every other process"
            return ProcessMemory(own, unknown_because=because)
        return ProcessMemory(own, sum(others.values()), others)
    # The PID may belong to another process, outside this container.
    if own == 0 or not all(map(exists, used)):
        return ProcessMemory(unknown_because=_not_listed())
    return ProcessMemory(own, unknown_because="a container does not show processes outside of it")


def _not_listed() -> str:
    if in_first_namespace():
        return "the driver does not list this process on the GPU"
    return "the driver does not know this container's process numbers: start it with --pid=host"
