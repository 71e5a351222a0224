"""The windows of steps that a step function's calls come to."""

from __future__ import annotations

import math
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_gpukit.input_wait.device_work import DeviceWork
from keras_gpukit.input_wait.examples import ExampleCounter
from keras_gpukit.input_wait.meters import Meter, Stretch, WaitReading
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.input_wait.wall_time import WallTime
from keras_gpukit.records.steps import Phase, StepWindow

# tf.data remembers the last 100 gaps between fetches: a reading at least so often misses none.
READ_EVERY_STEPS = 96
# But the first time soon, and then at twice the distance: short epochs must be seen too, and at
# their end a pipeline has released its stages.
FIRST_READING_AFTER_STEPS = 8
# A finer time series is of no use to a reader, and writing it would cost.
WINDOW_S = 1.0

NOTHING = object()


class Calls:
    """What each call of a step function reads, in one object: a single cache line.

    Attributes:
        source: What steps are fed from, kept alive only while they are.
        times_s: When calls were entered and left, in turn, since the window began, the call it
            began with included.
        due_times: The meter is due when there are so many times,
        due_s: or when a call is entered so late.
        before: Calls before those whose times are here.
    """

    __slots__ = ("before", "due_s", "due_times", "source", "times_s")

    def __init__(self) -> None:
        self.source: Any = NOTHING
        self.before = 0
        self.forget()

    @property
    def count(self) -> int:
        """All calls."""
        return self.before + len(self.times_s) // 2

    def forget(self) -> None:
        """Drops the times."""
        self.times_s: list[float] = []
        self.due_times: int = sys.maxsize
        self.due_s: float = math.inf


class StepWindows:
    """Reads the meter of the current pipeline in time, and makes windows of steps.

    Args:
        calls: The calls, whose due times are set here.
        phase: What the steps belong to.
        steps_per_execution: Steps in one call.
        first_step: Global step before the first call.
        on_window: Called with each finished window.
        choose: Picks a meter for an iterator, or says why none fits.
        wall: Where the call's wall time goes.
        examples: Counts examples; None where they are not counted.
        stood_still_since: Whether the process stood still since a moment of the clock; then it is
            unknown what waited for what.
        device: What the device hides of the wait; None where it works within the calls.

    Attributes:
        meter: The current pipeline's; None without one.
        unknown_because: Why the wait is unknown.
        totals: The windows so far, added up.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        phase: Phase,
        steps_per_execution: int,
        first_step: int,
        on_window: Callable[[StepWindow], None],
        choose: Callable[[Any], Meter | str],
        wall: WallTime | None,
        examples: ExampleCounter | None,
        stood_still_since: Callable[[float], bool],
        device: DeviceWork | None = None,
    ) -> None:
        self.meter: Meter | None = None
        self.unknown_because: str | None = None
        self.totals = StepTotals(phase, steps_per_execution)
        self._calls = calls
        self._phase = phase
        self._steps_per_execution = steps_per_execution
        self._first_step = first_step
        self._on_window = on_window
        self._choose = choose
        self._wall = wall
        self._examples = examples
        self._stood_still_since = stood_still_since
        self._device = device
        # Of several steps in a call, all but the first belong to the call after the stretch.
        steps = READ_EVERY_STEPS - (steps_per_execution - 1)
        self._most_calls_to_a_reading = max(1, steps // steps_per_execution)
        self._calls_to_a_reading = 1
        # A source that comes again keeps its meter: choosing another may only be done before
        # anything was fetched.
        self._chosen: weakref.WeakKeyDictionary[Any, Meter | str] = weakref.WeakKeyDictionary()
        self._is_new = True
        # The current window.
        self._started_s: float | None = None
        self._taken: list[Any] = []
        self._calls_taken = 0
        self._raised = self._raised_taken = False

    @property
    def step(self) -> int:
        """Global step."""
        return self._first_step + self._calls.count * self._steps_per_execution

    @property
    def began_s(self) -> float | None:
        """When the window under way began; None between windows."""
        return self._started_s

    @property
    def steps_before(self) -> int:
        """Steps before the window under way."""
        return self._calls.before * self._steps_per_execution

    @property
    def has_calls(self) -> bool:
        """Whether a window has started and a call in it ended."""
        return self._started_s is not None and len(self._calls.times_s) > 2

    def release(self) -> None:
        """Forgets the data of a run that is over, and its listener."""
        self.meter = None
        self._choose = lambda source: "the run is over"
        self._on_window = lambda window: None
        self._chosen.clear()

    def note_raised(self) -> None:
        """A call raised, as at the end of the data."""
        self._raised = True

    def drop(self) -> None:
        """There is no window: what comes next does not follow what came before."""
        if self._wall is not None:
            times_s = self._calls.times_s
            self._wall.add_inside(sum(times_s[1::2]) - sum(times_s[::2]))
        self._calls.before = self._calls.count
        self._started_s = None
        self._calls.forget()
        self._taken = []

    def follow(self, source: Any) -> None:
        """The steps to come are fed from a source."""
        self._raised = False
        self.totals.begin_epoch()
        self._is_new = source not in self._chosen
        if self._is_new:
            self._chosen[source] = self._choose(source)
        chosen = self._chosen[source]
        if isinstance(chosen, str):
            self.meter, self.unknown_because = None, chosen
        else:
            self.meter, self.unknown_because = chosen, None

    def turn(self) -> None:
        """Reads the meter; begins a window, or ends one that is long enough."""
        if self._started_s is None:
            first = max(1, FIRST_READING_AFTER_STEPS // self._steps_per_execution)
            self._calls_to_a_reading = min(first, self._most_calls_to_a_reading)
            self._start(self._stretch())
            self._begin()
            return
        self._take()
        twice = 2 * self._calls_to_a_reading
        self._calls_to_a_reading = min(twice, self._most_calls_to_a_reading)
        if self._calls.times_s[-2] - self._started_s >= WINDOW_S:
            self._close()
        else:
            self._set_due()

    def _start(self, first: Stretch) -> None:
        is_first_of_run = self._calls.count == 2
        start = None if self.meter is None else self.meter.start(first)
        if start is not None and self._is_new and not is_first_of_run:
            self.totals.starts.add(start)
            if self._wall is not None:
                self._wall.add_epoch_wait(start.wait_s)
        self.totals.distribution.gap()
        if self._examples is not None:
            self._examples.start()

    def _begin(self) -> None:
        """A window begins with the latest call."""
        self._calls.before = self._calls.count - 1
        self._calls.times_s = self._calls.times_s[-2:]
        self._started_s = self._calls.times_s[0]
        self._calls.due_s = self._started_s + WINDOW_S
        self._set_due()

    def _set_due(self) -> None:
        self._calls.due_times = len(self._calls.times_s) + 2 * self._calls_to_a_reading

    def _take(self) -> None:
        if self.meter is not None:
            self._taken.append(self.meter.take())
        self._calls_taken, self._raised_taken = self._calls.count, self._raised

    def _stretch(self) -> Stretch:
        """The calls since the window began but the latest, which begins the next one."""
        times_s = np.fromiter(self._calls.times_s, np.float64, len(self._calls.times_s))
        stretch = Stretch(times_s[::2], times_s[1:-2:2], float(times_s[-1]), self._raised_taken)
        if self._wall is not None:
            self._wall.add_inside(float((stretch.exits_s - stretch.entries_s[:-1]).sum()))
        return stretch

    def end(self) -> None:
        """Ends the current window, at the latest call."""
        if self._calls.count > self._calls_taken:
            self._take()
        self._close()

    def _close(self) -> None:
        assert self._started_s is not None
        stretch = self._stretch()
        reading = self._read(stretch, self._stood_still_since(self._started_s))
        if reading.waits_s is not None:
            self.totals.distribution.add(reading.waits_s, stretch.durations_s)
        window = StepWindow(
            phase=self._phase,
            time_s=time.time(),
            step=self.step,
            steps=stretch.calls * self._steps_per_execution,
            duration_s=stretch.duration_s,
            input_wait_s=reading.wait_s,
            examples=None if self._examples is None else self._examples.read(),
            buffered_batches=reading.buffered_batches,
        )
        self.totals.add(window)
        self.totals.step_times.add(
            stretch.durations_s,
            reading.waits_s,
            # The window was read after one more call.
            last_step=window.step - self._steps_per_execution,
            ended_s=window.time_s - (stretch.next_exit_s - float(stretch.entries_s[-1])),
        )
        self._begin()
        self._on_window(window)

    def _read(self, stretch: Stretch, stood_still: bool) -> WaitReading:
        """Works out what a window waited, from all that was taken in it."""
        taken, self._taken = self._taken, []
        reading = WaitReading(None)
        if self.meter is not None:
            reading = self._exposed(self.meter, self.meter.read(taken, stretch), stretch)
        if stood_still:
            reading = WaitReading(None, unknown_because="the process stood still")
        if reading.unknown_because is not None:
            self.unknown_because = reading.unknown_because
        return reading

    def _exposed(self, meter: Meter, reading: WaitReading, stretch: Stretch) -> WaitReading:
        """Takes off what the device hides."""
        if self._device is None or reading.wait_s is None:
            return reading
        exposed = self._device.exposed(reading, stretch, self._calls.before)
        if exposed is None:
            meter.confidence = "upper bound"
            return reading
        return exposed
