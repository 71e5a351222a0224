"""Memory of TensorFlow's allocators, per device."""

from __future__ import annotations

import os
from collections.abc import Sequence

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.machine import DeviceMemory, MemoryRecord
from keras_gpukit.sensors.devices import visible_devices

NO_ALLOCATOR = (
    "no GPU is used, and TensorFlow counts CPU memory only with TF_CPU_ALLOCATOR_USE_BFC=true"
)


class AllocatorSensor:
    """Reads current and peak allocation of each device whose allocator keeps statistics.

    Args:
        gpus: GPUs that TensorFlow uses, in its order.
        reset_peak: Whether to reset TensorFlow's peak counters. The peak then covers the run rather
            than the whole process.
    """

    def __init__(self, gpus: Sequence[GPUInfo], *, reset_peak: bool = True) -> None:
        import tensorflow as tf

        self._config = tf.config.experimental
        self._limits = {device: _limit_bytes(device, gpus) for device in _devices()}
        self._first_peaks: dict[str, int] = {}
        self._later: dict[str, int] = {}
        self._later_readings = 0
        if reset_peak:
            for device in self._limits:
                self._config.reset_memory_stats(device)

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that are read, such as "GPU:0"."""
        return tuple(self._limits)

    def read(self) -> tuple[DeviceMemory, ...]:
        """Reads each device once."""
        readings = []
        for device, limit in self._limits.items():
            info = self._config.get_memory_info(device)
            readings.append(
                DeviceMemory(
                    device,
                    info["current"],
                    info["peak"],
                    limit,
                    self._first_peaks.get(device),
                    self._later.get(device),
                    self._later_readings,
                )
            )
        return tuple(readings)

    def first_step_ended(self) -> None:
        """Stores the peaks up to the end of the first step, in addition to those of the run."""
        self._first_peaks = {each.device: each.peak_bytes for each in self.read()}

    def read_in_steps(self) -> tuple[DeviceMemory, ...]:
        """Reads each device once while steps run; tracks the highest use after the first step."""
        if self._first_peaks:
            self._later_readings += 1
            for each in self.read():
                self._later[each.device] = max(each.current_bytes, self._later.get(each.device, 0))
        return self.read()

    def limit_bytes(self, device: str) -> int | None:
        """Returns the limit of TensorFlow's memory on a device; None if unknown."""
        return self._limits.get(device)

    def summarize(self) -> MemoryRecord:
        """Reads each device a last time, and returns the readings, or why there are none."""
        return MemoryRecord(self.read(), None if self._limits else NO_ALLOCATOR)


def _devices() -> list[str]:
    import tensorflow as tf

    logical = tf.config.list_logical_devices("GPU")
    # A CPU's other allocators count only large blocks, or nothing.
    if os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true"):
        # Logical CPU devices share one allocator, so the first one is enough.
        logical += tf.config.list_logical_devices("CPU")[:1]
    return [device.name.removeprefix("/device:") for device in logical]


def _limit_bytes(device: str, gpus: Sequence[GPUInfo]) -> int | None:
    """Returns the configured limit of TensorFlow's memory, else the GPU's memory."""
    import tensorflow as tf

    kind, index = device.split(":")
    if kind != "GPU":
        given = os.environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB", "")
        return int(given) * 2**20 if given.isdigit() else None
    for physical, gpu in zip(visible_devices(), gpus, strict=False):
        if gpu.logical is None or int(index) not in gpu.logical:
            continue
        parts = tf.config.get_logical_device_configuration(physical)
        part = parts[gpu.logical.index(int(index))] if parts else None
        return part.memory_limit * 2**20 if part and part.memory_limit else gpu.memory_bytes
    return None
