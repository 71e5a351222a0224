"""Reads how long steps waited, as far as the meter chosen for their pipeline can know it.

An asynchronous device hides a part of a wait behind the previous step. On a GPU, a step function
returns once its kernels are launched. If all callbacks are `async_safe`, Keras (3.12 to 3.15) waits
for a step's results on another thread and calls the next step function meanwhile. The device is
idle only from the end of the previous step until the batch is ready:

    stall = max(0, ready - max(entry, finished before))

The formula is derived from Keras' source and tested with given times. On an H100 with Keras 3.15,
step functions returned only once their step had ended, so nothing was hidden; whether the formula
holds where they return earlier is untested on GPUs.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from keras_gpukit.input.wait.meters import Meter, PipelineStart, Stretch, WaitReading
from keras_gpukit.records.steps import Confidence

_STOOD_STILL = WaitReading(None, unknown_because="the process was suspended")
_HIDDEN = "when the GPU finished its steps is unknown, and so is the part of the wait that it hid"


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


class Taken(NamedTuple):
    """Readings that must be taken at the moment when a stretch ends; evaluated later.

    Attributes:
        meter: Meter of the stretch's pipeline; None if no meter fits.
        readings: Readings of the meter in the stretch, in order.
        calls_before: Number of calls of the run before the stretch.
        stood_still: Whether the process was suspended within the stretch.
    """

    meter: Meter | None
    readings: tuple[Any, ...]
    calls_before: int = 0
    stood_still: bool = False


class WaitReader:
    """Reads the meter of the current pipeline.

    Args:
        choose: Returns a meter for an iterator, or the reason why no meter fits.
        device: Subtracts the part of the wait that the device hides; None if the device finishes
            its work within the calls.
        stood_still_since: Returns whether the process was suspended since a time on the clock. If
            so, it is unknown how long the steps waited.

    Attributes:
        meter: Meter of the current pipeline; None if no meter fits.
        unknown_because: Why the current pipeline's wait is unknown, at least in part; None if it
            is known.
    """

    def __init__(
        self,
        choose: Callable[[Any], Meter | str],
        device: DeviceWork | None = None,
        stood_still_since: Callable[[float], bool] = lambda moment_s: False,
    ) -> None:
        self.meter: Meter | None = None
        self.unknown_because: str | None = None
        self._choose = choose
        self._device = device
        self._stood_still_since = stood_still_since
        # A source that is used again keeps its meter, since a meter must be chosen before the first
        # fetch.
        self._chosen: weakref.WeakKeyDictionary[Any, Meter | str] = weakref.WeakKeyDictionary()
        self._bound: Meter | None = None  # the device hides an unknown part of its waits
        self._readings: tuple[Any, ...] = ()

    @property
    def mechanism(self) -> str | None:
        """Name of the current meter; None without one."""
        return self.meter.mechanism if self.meter else None

    @property
    def confidence(self) -> Confidence | None:
        """Confidence of the current meter's waits; None without one."""
        if self.meter is None:
            return None
        return "upper bound" if self._bound is self.meter else self.meter.confidence

    @property
    def reads_early(self) -> bool:
        """Whether readings at a pipeline's start, and soon after, are useful."""
        return self.meter is not None and self.meter.reads_early

    def follow(self, source: Any) -> bool:
        """Switches to the meter of a source; returns whether the source is new."""
        chosen = self._chosen.get(source)
        is_new = chosen is None
        if chosen is None:
            self._chosen[source] = chosen = self._choose(source)
        if isinstance(chosen, str):
            self.meter, self.unknown_because = None, chosen
        else:
            self.meter, self.unknown_because = chosen, None
        return is_new

    def stop(self, because: str) -> None:
        """Discards the readings that were taken. Earlier waits stay, with the name of their meter.

        Args:
            because: Reason why the wait is unknown from now on.
        """
        self.drop()
        self.unknown_because = because

    def take(self) -> None:
        """Keeps the meter's current reading, which can be evaluated later."""
        if self.meter is not None:
            self._readings = (*self._readings, self.meter.take())

    def drop(self) -> None:
        """Discards the readings that were taken."""
        self._readings = ()

    def start(self) -> Taken:
        """Reads the meter after a pipeline's second call, if it reads early."""
        meter = self.meter
        return Taken(meter, (meter.take(),) if meter and meter.reads_early else ())

    def end(self, began_s: float, calls_before: int) -> Taken:
        """Ends a stretch that began at a time on the clock, after so many calls of the run."""
        readings, self._readings = self._readings, ()
        return Taken(self.meter, readings, calls_before, self._stood_still_since(began_s))

    def start_of(self, taken: Taken, first: Stretch) -> PipelineStart | None:
        """Returns the wait for a pipeline's first batch, or None if unknown.

        Args:
            taken: Result of `start`.
            first: Stretch of the pipeline's first call.
        """
        if taken.meter is None:
            return None
        return taken.meter.start(taken.readings[0] if taken.readings else None, first)

    def wait_of(self, taken: Taken, stretch: Stretch) -> WaitReading:
        """Returns the wait of a stretch, from the result of `end`."""
        reading = WaitReading(None)
        if taken.meter is not None:
            reading = taken.meter.read(taken.readings, stretch)
            reading = self._exposed(taken.meter, reading, stretch, taken.calls_before)
        return self._noted(_STOOD_STILL if taken.stood_still else reading)

    def known(self, reading: WaitReading, began_s: float) -> WaitReading:
        """Returns the wait of calls of a short epoch, unless the process was suspended.

        How much of it the device hid is unknown.
        """
        if self._device is not None:
            self._bound = self.meter
        return self._noted(_STOOD_STILL if self._stood_still_since(began_s) else reading)

    def release(self) -> None:
        """Forgets the data of a run that is over."""
        self.meter = self._bound = None
        self._choose = lambda source: "the run is over"
        self._chosen.clear()

    def _noted(self, reading: WaitReading) -> WaitReading:
        if reading.unknown_because is not None:
            self.unknown_because = reading.unknown_because
        return reading

    def _exposed(
        self, meter: Meter, reading: WaitReading, stretch: Stretch, calls_before: int
    ) -> WaitReading:
        """Subtracts what the device hides; if that is unknown, the wait is an upper bound."""
        if self._device is None or reading.wait_s is None:
            return reading
        exposed = self._device.exposed(reading, stretch, calls_before)
        if exposed is None and meter.confidence == "sampled":
            return WaitReading(None, unknown_because=_HIDDEN)
        if exposed is None:
            self._bound = meter
        return exposed or reading
