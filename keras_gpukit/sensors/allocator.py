"""Memory of TensorFlow's allocators, per device."""

from __future__ import annotations

import os
from collections.abc import Sequence

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.machine import DeviceMemory
from keras_gpukit.sensors.devices import visible_devices

NO_ALLOCATOR = (
    "no GPU is used, and TensorFlow counts CPU memory only with TF_CPU_ALLOCATOR_USE_BFC=true"
)


class AllocatorSensor:
    """Reads current and peak allocation of each device whose allocator keeps statistics.

    `gpus` are those that TensorFlow uses, in its order. If its peak counters are reset, the peak
    covers the run rather than the whole process.
    """

    def __init__(self, gpus: Sequence[GPUInfo], *, reset_peak: bool = True) -> None:
        import tensorflow as tf

        self._config = tf.config.experimental
        self._limits = {device: _limit_bytes(device, gpus) for device in _devices()}
        # By device, once the first step has ended: its peak, and what was in use then.
        self._first: dict[str, tuple[int, int]] = {}
        if reset_peak:
            self._reset()

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that are read, such as "GPU:0"."""
        return tuple(self._limits)

    def read_allocators(self, *, only_first_step: bool = False) -> tuple[DeviceMemory, ...]:
        """Reads each device once.

        In a run of one step, what is in use after it belongs to a validation, and is no peak of
        steps.
        """
        readings = []
        for device, limit in self._limits.items():
            info = self._config.get_memory_info(device)
            current, peak = info["current"], info["peak"]
            first, after_first = self._first.get(device, (None, None))
            # Any later step allocates, which raises the counter above its value at the reset.
            is_later = after_first is not None and peak > after_first and not only_first_step
            readings.append(
                DeviceMemory(
                    device, current, max(peak, first or 0), limit, first, peak if is_later else None
                )
            )
        return tuple(readings)

    def first_step_ended(self) -> None:
        """Stores the peaks of the first step, and resets the counters for those of later steps."""
        self._first = {
            gpu.device: (gpu.peak_bytes, gpu.current_bytes) for gpu in self.read_allocators()
        }
        self._reset()

    def limit_bytes(self, device: str) -> int | None:
        """Returns the limit of TensorFlow's memory on a device; None if unknown."""
        return self._limits.get(device)

    def _reset(self) -> None:
        for device in self._limits:
            self._config.reset_memory_stats(device)


def _devices() -> list[str]:
    import tensorflow as tf

    logical = tf.config.list_logical_devices("GPU")
    # A CPU's other allocators count only large blocks, or nothing.
    if has_pool():
        # Logical CPU devices share one allocator, so the first one is enough.
        logical += tf.config.list_logical_devices("CPU")[:1]
    return [device.name.removeprefix("/device:") for device in logical]


def has_pool() -> bool:
    """Whether TensorFlow manages a CPU's memory as it does a GPU's."""
    return os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true")


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
