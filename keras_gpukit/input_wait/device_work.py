"""How much of a wait an asynchronous device hides behind the step before.

On a GPU a step function returns once its kernels are launched. Where all callbacks are
`async_safe`, Keras (3.12 to 3.15) waits for a step's results on another thread and calls the next
step function meanwhile. The device idles only from when it has finished the step before until the
batch is there:

    stall = max(0, ready - max(entry, finished before))

This is read from Keras' source and tested with given times. It has not run on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from keras_gpukit.input_wait.meters import Stretch, WaitReading


def runs_behind(model: Any) -> bool:
    """Returns whether the model's device works on a step after its step function returned."""
    return any("GPU" in str(variable.value.device) for variable in model.variables[:1])


class DeviceWork:
    """Knows when the device finished each step.

    Args:
        steps_per_execution: Steps in one call of the step function. Of more than one, the fetches
            within a call overlap with steps whose ends are unknown.
        now: The clock, in seconds.
    """

    def __init__(
        self, steps_per_execution: int = 1, now: Callable[[], float] = perf_counter
    ) -> None:
        self._is_known = steps_per_execution == 1
        self._now = now
        # Other threads append meanwhile, so the list itself stays.
        self._finished_s: list[float] = []
        self._before = 0

    def note_finished(self) -> None:
        """A step's results are there; steps finish in the order of their calls."""
        self._finished_s.append(self._now())

    def exposed(
        self, reading: WaitReading, stretch: Stretch, first_call: int
    ) -> WaitReading | None:
        """Returns the part of a stretch's wait in which the device had no work.

        Args:
            reading: All of the wait.
            stretch: Its calls.
            first_call: How many calls came before them.

        Returns:
            None if that part is unknown: the wait is an upper bound then.
        """
        earlier = first_call - 1 - self._before
        # Without any end, they are not reported, rather than all late.
        if not self._is_known or reading.waits_s is None or earlier < 0 or not self._finished_s:
            return None
        finished_s = np.sort(self._finished_s)[earlier : earlier + stretch.calls]
        del self._finished_s[:earlier]
        self._before += earlier
        # A step that has not ended yet kept the device busy all the time.
        busy_until_s = np.full(stretch.calls, np.inf)
        busy_until_s[: len(finished_s)] = finished_s
        ready_s = stretch.entries_s[:-1] + reading.waits_s
        waits_s = np.clip(ready_s - busy_until_s, 0.0, np.maximum(reading.waits_s, 0.0))
        return replace(reading, wait_s=float(waits_s.sum()), waits_s=waits_s)
