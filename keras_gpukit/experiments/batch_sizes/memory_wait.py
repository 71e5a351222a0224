"""Ends a process of trials that waits for memory which nothing will give back.

Before TensorFlow's allocator gives up, it waits ten seconds for other threads to free something
(`kMaxMillisToWait` in `bfc_allocator.cc`, seen in TensorFlow 2.21), once for each operation that
asks. On a CPU, where what computes uses the processor, a process that does not use it while its
memory is nearly full has no thread left that could.
"""

from __future__ import annotations

import os
import threading
import time

from keras_gpukit.sensors.allocator import AllocatorSensor

WAITS_FOR_MEMORY = 86
"""Exit code of such a process."""
LOOK_EVERY_S = 0.25
# In a row; the share is of one core.
LOOKS, IDLE_SHARE = 6, 0.02
# Of the limit.
FULL_SHARE = 0.75


class MemoryWatch:
    """Entered around a trial.

    It does nothing without a CPU whose memory has a limit.
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
