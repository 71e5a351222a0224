"""What NVML shows of the GPUs: the truth that does not come from TensorFlow."""

from __future__ import annotations

import os
from typing import Any

import pynvml


def read_gpus() -> dict[str, dict[str, Any]]:
    """Returns what NVML shows of each GPU, by UUID; empty without a driver.

    `process_bytes` is this process's memory: None where the driver reports the process numbers of
    another namespace, as in most containers.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return {pynvml.nvmlDeviceGetUUID(handle): _read(handle) for handle in handles}
    finally:
        pynvml.nvmlShutdown()


def _read(handle: Any) -> dict[str, Any]:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    processes = {
        process.pid: process.usedGpuMemory
        for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    }
    return {
        "name": pynvml.nvmlDeviceGetName(handle),
        "compute_capability": list(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
        "total_bytes": memory.total,
        "used_bytes": memory.used,
        "process_bytes": processes.get(os.getpid()),
    }


def added_bytes(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]
) -> dict[str, int]:
    """Returns how much more memory is in use on each GPU, by UUID."""
    return {
        uuid: after[uuid]["used_bytes"] - gpu["used_bytes"]
        for uuid, gpu in before.items()
        if uuid in after
    }
