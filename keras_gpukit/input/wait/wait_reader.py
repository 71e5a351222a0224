"""Reads how long steps waited, as far as the meter chosen for their pipeline can know it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from keras_gpukit.input.wait.device_work import DeviceWork
from keras_gpukit.input.wait.meters import Meter, PipelineStart, Stretch, WaitReading

_STOOD_STILL = WaitReading(None, unknown_because="the process was suspended")
_HIDDEN = "when the GPU finished its steps is unknown, and so is the part of the wait that it hid"


class WaitReader:
    """Reads the meter of the current pipeline.

    Args:
        choose: Returns a meter for an iterator, or the reason why no meter fits.
        stood_still_since: Returns whether the process was suspended since a time on the clock. If
            so, it is unknown how long the steps waited.
        device: Subtracts the part of the wait that the device hides; None if the device finishes
            its work within the calls.

    Attributes:
        meter: Meter of the current pipeline; None if no meter fits.
        unknown_because: Why the current pipeline's wait is unknown, at least in part; None if it
            is known.
    """

    def __init__(
        self,
        choose: Callable[[Any], Meter | str],
        stood_still_since: Callable[[float], bool],
        device: DeviceWork | None,
    ) -> None:
        self.meter: Meter | None = None
        self.unknown_because: str | None = None
        self._choose = choose
        self._stood_still_since = stood_still_since
        self._device = device
        # A source that is used again keeps its meter, since a meter must be chosen before the first
        # fetch.
        self._chosen: weakref.WeakKeyDictionary[Any, Meter | str] = weakref.WeakKeyDictionary()
        self._taken: list[Any] = []

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

    @property
    def reads_early(self) -> bool:
        """Whether readings at a pipeline's start, and soon after, are useful."""
        return self.meter is not None and self.meter.reads_early

    def take(self) -> None:
        """Keeps the meter's current reading, which can be evaluated later."""
        if self.meter is not None:
            self._taken.append(self.meter.take())

    def drop(self) -> None:
        """Discards the readings that were taken."""
        self._taken = []

    def start(self) -> Callable[[Stretch], PipelineStart | None]:
        """Reads the meter after a pipeline's second call, if it reads early.

        Returns:
            A function that takes the pipeline's first call, and returns the wait for the first
            batch; None if that is unknown.
        """
        meter = self.meter
        if meter is None:
            return lambda first: None
        return functools.partial(meter.start, meter.take() if meter.reads_early else None)

    def end(self, began_s: float, calls_before: int) -> Callable[[Stretch], WaitReading]:
        """Ends a stretch.

        Args:
            began_s: When it began, on the clock.
            calls_before: Number of calls of the run before it.

        Returns:
            A function that takes the stretch, and returns its wait from the readings taken in it.
        """
        meter, taken, self._taken = self.meter, self._taken, []
        stood_still = self._stood_still_since(began_s)

        def read(stretch: Stretch) -> WaitReading:
            reading = WaitReading(None)
            if meter is not None:
                reading = self._exposed(meter, meter.read(taken, stretch), stretch, calls_before)
            return self._noted(_STOOD_STILL if stood_still else reading)

        return read

    def judged(self, reading: WaitReading, began_s: float) -> WaitReading:
        """Returns the reading, or an unknown one if the process was suspended; keeps the reason.

        Args:
            reading: Reading of some calls.
            began_s: When the first of them began, on the clock.
        """
        return self._noted(_STOOD_STILL if self._stood_still_since(began_s) else reading)

    def note_bound(self) -> None:
        """Notes that the device may have hidden an unknown part of some calls' known waits."""
        if self._device is not None and self.meter is not None:
            self.meter.confidence = "upper bound"

    def release(self) -> None:
        """Forgets the data of a run that is over."""
        self.meter = None
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
            meter.confidence = "upper bound"
            return reading
        return exposed
