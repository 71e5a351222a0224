"""Subtracts the part of an input wait that an asynchronous device hides behind the previous step.

On a GPU, a step function may return once its kernels are launched. If all callbacks are
`async_safe`, Keras (3.12 to 3.15) waits for a step's results on another thread and calls the next
step function meanwhile. The device is idle only from the end of the previous step until the batch
is ready:

    stall = max(0, ready - max(entry, finished before))

The formula is derived from Keras' source and tested with given times. On an H100 with Keras 3.15,
step functions returned only once their step had ended, so nothing was hidden; whether the formula
holds where they return earlier is untested on GPUs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from keras_gpukit.input.wait.meters import Stretch, WaitReading


def runs_behind(model: Any) -> bool:
    """Whether the model's device may work on a step after the step function has returned.

    With several steps per execution it does not: a call returns only after its last step.
    """
    on_gpu = any("GPU" in str(variable.value.device) for variable in model.variables[:1])
    return on_gpu and model.steps_per_execution == 1


class DeviceWork:
    """Notes when the device finishes each step."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        # Never replaced, since other threads append to this list at any time.
        self._finished_s: list[float] = []
        self._before = 0

    def note_finished(self) -> None:
        """Notes that a step's results are available; steps finish in the order of their calls."""
        self._finished_s.append(self._now())

    def exposed(
        self, reading: WaitReading, stretch: Stretch, first_call: int
    ) -> WaitReading | None:
        """Returns the part of a stretch's wait in which the device had no work.

        Args:
            reading: Whole wait of the stretch.
            stretch: Calls of the stretch.
            first_call: Number of calls of the run before the stretch.

        Returns:
            The reading with only that part of the wait. None if that part is unknown; the whole
            wait is then an upper bound.
        """
        earlier = first_call - 1 - self._before
        # No end at all means that nothing reports them, not that every step is late.
        if reading.waits_s is None or earlier < 0 or not self._finished_s:
            return None
        self._finished_s.sort()  # safe while others append: sorting floats keeps the GIL
        finished_s = self._finished_s[earlier : earlier + stretch.calls]
        del self._finished_s[:earlier]
        self._before += earlier
        # A step that has not finished yet has kept the device busy all the time.
        busy_until_s = np.full(stretch.calls, np.inf)
        busy_until_s[: len(finished_s)] = finished_s
        ready_s = stretch.entries_s[:-1] + reading.waits_s
        waits_s = np.clip(ready_s - busy_until_s, 0.0, np.maximum(reading.waits_s, 0.0))
        return replace(reading, wait_s=float(waits_s.sum()), waits_s=waits_s)
