"""Which other processes hold memory of a GPU; untested on a real one."""

from __future__ import annotations

import os
from typing import Any

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.memory import GPUHolder
from keras_gpukit.sensors.nvml import NVMLSensor


def other_holders(gpu: GPUInfo, nvml: Any = None) -> tuple[GPUHolder, ...] | None:
    """Returns the other processes on a GPU, the largest first; None where they are not visible.

    Args:
        gpu: The GPU.
        nvml: The `pynvml` module, or a stand-in.
    """
    try:
        sensor = NVMLSensor([gpu], nvml)
    except Exception:  # no driver, or it is unknown which GPU it is
        return None
    try:
        held = sensor.holders(gpu.index)
    except Exception:  # the GPU or the driver is gone
        held = None
    finally:
        sensor.close()
    # Where process numbers are those of another namespace, our own is not among them.
    if held is None or os.getpid() not in held:
        return None
    others = [GPUHolder(pid, used, _name(pid)) for pid, used in held.items() if pid != os.getpid()]
    return tuple(sorted(others, key=lambda each: -each.used_bytes))


def _name(pid: int) -> str | None:
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return None
