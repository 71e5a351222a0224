"""Which other processes hold memory of a GPU; untested on a real one."""

from __future__ import annotations

from typing import Any

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.memory import GPUHolder
from keras_gpukit.sensors.gpu_processes import program_name
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
        memory = sensor.processes(gpu.index)
    except Exception:  # the GPU or the driver is gone
        memory = None
    finally:
        sensor.close()
    if memory is None or memory.others_bytes is None:
        return None
    others = [GPUHolder(pid, used, program_name(pid)) for pid, used in memory.others.items()]
    return tuple(sorted(others, key=lambda each: -each.used_bytes))
