"""What a pipeline's steps waited: from the meter chosen for it, as far as that can be known."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from keras_gpukit.input_wait.device_work import DeviceWork
from keras_gpukit.input_wait.meters import Meter, PipelineStart, Stretch, WaitReading

_STOOD_STILL = WaitReading(None, unknown_because="the process stood still")


class WaitReader:
    """Reads the meter of the current pipeline.

    Args:
        choose: Picks a meter for an iterator, or says why none fits.
        stood_still_since: Whether the process stood still since a moment of the clock; then it is
            unknown what waited for what.
        device: What the device hides of the wait; None where it works within the calls.

    Attributes:
        meter: The current pipeline's; None without one.
        unknown_because: Why the wait is unknown.
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
        # A source that comes again keeps its meter: choosing another may only be done before
        # anything was fetched.
        self._chosen: weakref.WeakKeyDictionary[Any, Meter | str] = weakref.WeakKeyDictionary()
        self._taken: list[Any] = []

    def follow(self, source: Any) -> bool:
        """Picks the meter of a source; returns whether the source is new."""
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
        """Whether a reading soon after a pipeline's start is of use."""
        return self.meter is not None and self.meter.reads_early

    def take(self) -> None:
        """Keeps what the meter shows now; evaluating it can wait."""
        if self.meter is not None:
            self._taken.append(self.meter.take())

    def drop(self) -> None:
        """Forgets what was taken."""
        self._taken = []

    def start(self) -> Callable[[Stretch], PipelineStart | None]:
        """Takes what the meter shows after a pipeline's second call.

        Returns:
            From the pipeline's first call, what is known of its start.
        """
        meter = self.meter
        if meter is None:
            return lambda first: None
        return functools.partial(meter.start, meter.take() if meter.reads_early else None)

    def end(self, began_s: float, calls_before: int) -> Callable[[Stretch], WaitReading]:
        """Ends a stretch.

        Args:
            began_s: When it began.
            calls_before: Calls of the run before it.

        Returns:
            From the stretch, how long it waited, by all that was taken in it.
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
        """Returns what is known of calls that began at a moment, and keeps why it is not."""
        return self._noted(_STOOD_STILL if self._stood_still_since(began_s) else reading)

    def note_bound(self) -> None:
        """The waits of some calls are known, but not what the device hid of them."""
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
        """Takes off what the device hides."""
        if self._device is None or reading.wait_s is None:
            return reading
        exposed = self._device.exposed(reading, stretch, calls_before)
        if exposed is None:
            meter.confidence = "upper bound"
            return reading
        return exposed
