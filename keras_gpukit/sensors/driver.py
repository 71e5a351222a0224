"""The NVIDIA driver and every GPU it lists, through NVML.

This module has not run on a GPU yet. It is tested with NVIDIA's binding over a stand-in for the
library.
"""

from __future__ import annotations

import os
import sys
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
    """Calls a function of NVML by name.

    Returns:
        The function's result; None on an error of NVML. Some GPUs do not support every function,
        such as a GPU without memory of its own.
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
