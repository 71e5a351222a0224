"""What NVML shows of the GPUs: the truth that does not come from TensorFlow."""

from __future__ import annotations

import os
from typing import Any

import pynvml

CPU_ALLOCATOR = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "256"}


def read_gpus() -> dict[str, dict[str, Any]]:
    """Returns what NVML shows of each GPU, by UUID; empty without a driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    found = {}
    try:
        for handle in map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount())):
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            found[pynvml.nvmlDeviceGetUUID(handle)] = {
                "compute_capability": list(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
                "total_bytes": memory.total,
                "used_bytes": memory.used,
            }
    finally:
        pynvml.nvmlShutdown()
    return found


def added_bytes(before: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Returns how much more memory is in use on each GPU than before, by UUID."""
    after = read_gpus()
    return {
        uuid: after[uuid]["used_bytes"] - gpu["used_bytes"]
        for uuid, gpu in before.items()
        if uuid in after
    }


def count_as_gpus_do() -> None:
    """Without a GPU, gives the CPU an allocator that keeps count and runs out, as a GPU's does.

    Before TensorFlow's runtime starts.
    """
    if not read_gpus():
        os.environ.update(CPU_ALLOCATOR)
