"""Ends a trial process that waits for memory which no thread will free.

Before TensorFlow's allocator fails, it waits ten seconds for other threads to free memory
(`kMaxMillisToWait` in `bfc_allocator.cc`, seen in TensorFlow 2.21). It waits once for each
operation that requests memory. On a CPU, all computation uses the processor. If the process is idle
while its memory is nearly full, no thread is left that could free memory.
"""

from __future__ import annotations

import os
import threading
import time

from keras_gpukit.sensors.allocator import AllocatorSensor

WAITS_FOR_MEMORY = 86
"""Exit code of a process that was ended because it waited for memory."""
LOOK_EVERY_S = 0.25
# Number of consecutive idle checks that end the process, and the share of one core below which the
# process is idle.
LOOKS, IDLE_SHARE = 6, 0.02
# Share of the memory limit above which memory counts as nearly full.
FULL_SHARE = 0.75


class MemoryWatch:
    """Context manager for a trial: ends the process if the trial waits for memory in vain.

    It does nothing unless the first device is a CPU with a memory limit.
    """

    def __init__(self) -> None:
        self._sensor = AllocatorSensor((), reset_peak=False)
        device = next(iter(self._sensor.devices), "")
        limit_bytes = self._sensor.limit_bytes(device)
        self._on = threading.Event()
        if device.startswith("CPU") and limit_bytes is not None:
            self._full_bytes = FULL_SHARE * limit_bytes
            threading.Thread(target=self._watch, name="gpukit-memory", daemon=True).start()

    def __enter__(self) -> None:
        self._on.set()

    def __exit__(self, *error: object) -> None:
        self._on.clear()

    def _watch(self) -> None:
        idle, spent_s = 0, time.process_time()
        while True:
            self._on.wait()
            time.sleep(LOOK_EVERY_S)
            before_s, spent_s = spent_s, time.process_time()
            is_idle = spent_s - before_s < IDLE_SHARE * LOOK_EVERY_S
            held_bytes = self._sensor.read()[0].current_bytes or 0
            waits = self._on.is_set() and is_idle and held_bytes >= self._full_bytes
            idle = idle + 1 if waits else 0
            if idle == LOOKS:
                os._exit(WAITS_FOR_MEMORY)
