"""What a pipeline's steps waited: from the meter chosen for it, as far as that can be known."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from keras_gpukit.input_wait.device_work import DeviceWork
from keras_gpukit.input_wait.meters import Meter, PipelineStart, Stretch, WaitReading


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
        is_new = source not in self._chosen
        if is_new:
            self._chosen[source] = self._choose(source)
        chosen = self._chosen[source]
        if isinstance(chosen, str):
            self.meter, self.unknown_because = None, chosen
        else:
            self.meter, self.unknown_because = chosen, None
        return is_new

    def start(self, first: Stretch) -> PipelineStart | None:
        """Begins a stretch; returns what is known of the pipeline's start."""
        return None if self.meter is None else self.meter.start(first)

    def take(self) -> None:
        """Keeps what the meter shows now; evaluating it can wait."""
        if self.meter is not None:
            self._taken.append(self.meter.take())

    def drop(self) -> None:
        """Forgets what was taken."""
        self._taken = []

    def read(self, stretch: Stretch, calls_before: int) -> WaitReading:
        """Says how long a stretch waited, from all that was taken in it.

        Args:
            stretch: Its calls.
            calls_before: Calls of the run before it.
        """
        taken, self._taken = self._taken, []
        reading = WaitReading(None)
        if self.meter is not None:
            reading = self._exposed(
                self.meter, self.meter.read(taken, stretch), stretch, calls_before
            )
        return self.judged(reading, float(stretch.entries_s[0]))

    def judged(self, reading: WaitReading, began_s: float) -> WaitReading:
        """Returns what is known of calls that began at a moment, and keeps why it is not."""
        if self._stood_still_since(began_s):
            reading = WaitReading(None, unknown_because="the process stood still")
        if reading.unknown_because is not None:
            self.unknown_because = reading.unknown_because
        return reading

    def note_bound(self) -> None:
        """The waits of some calls are known, but not what the device hid of them."""
        if self._device is not None and self.meter is not None:
            self.meter.confidence = "upper bound"

    def release(self) -> None:
        """Forgets the data of a run that is over."""
        self.meter = None
        self._choose = lambda source: "the run is over"
        self._chosen.clear()

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
