"""The NVIDIA driver and every GPU it lists, through NVML.

Nothing here has run on a GPU yet: it is tested with NVIDIA's binding over a stand-in for the
library.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from keras_gpukit.records.installation import Driver, DriverGPU, MIGInstance


def read_driver(nvml: Any = None) -> Driver:
    """Asks NVML for the driver and its GPUs; never raises.

    Args:
        nvml: The `pynvml` module, or a stand-in.
    """
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
    """Asks a question of NVML.

    Returns:
        The answer, or None: not every GPU answers everything, such as one without own memory.
    """
    try:
        return getattr(nvml, question)(*args)
    except nvml.NVMLError:
        return None


def _describe(nvml: Any, index: int) -> DriverGPU:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:  # one that fell off the bus is still counted
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
    """The instances of a GPU in MIG mode; None where it is in another."""
    modes = ask(nvml, "nvmlDeviceGetMigMode", handle)
    if modes is None or not modes[0]:
        return None
    found = []
    for index in range(ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        instance = ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if instance is None:  # places are numbered, and few are taken
            continue
        memory = ask(nvml, "nvmlDeviceGetMemoryInfo", instance)
        found.append(
            MIGInstance(
                uuid=ask(nvml, "nvmlDeviceGetUUID", instance),
                gpu_instance=ask(nvml, "nvmlDeviceGetGpuInstanceId", instance),
                compute_instance=ask(nvml, "nvmlDeviceGetComputeInstanceId", instance),
                name=ask(nvml, "nvmlDeviceGetName", instance),
                memory_bytes=None if memory is None else memory.total,
            )
        )
    return tuple(found)
