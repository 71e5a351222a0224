"""The windows of steps that a step function's calls come to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_gpukit.input_wait.calls import Calls, FirstCalls
from keras_gpukit.input_wait.examples import ExampleCounter
from keras_gpukit.input_wait.meters import PipelineStart, Stretch, Times, WaitReading
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.input_wait.wait_reader import WaitReader
from keras_gpukit.input_wait.wall_time import WallTime
from keras_gpukit.records.steps import Phase, StepWindow

# tf.data remembers the last 100 gaps between fetches: a reading at least so often misses none.
READ_EVERY_STEPS = 96
# But the first time soon, and then at twice the distance: short epochs must be seen too, and at
# their end a pipeline has released its stages.
FIRST_READING_AFTER_STEPS = 8
# A finer time series is of no use to a reader, and writing it would cost.
WINDOW_S = 1.0


class StepWindows:
    """Reads the meter of the current pipeline in time, and makes windows of steps.

    Args:
        calls: The calls, whose due times are set here.
        phase: What the steps belong to.
        steps_per_execution: Steps in one call.
        first_step: Global step before the first call.
        on_window: Called with each finished window.
        reader: Says how long steps waited.
        wall: Where the call's wall time goes.
        examples: Counts examples; None where they are not counted.

    Attributes:
        totals: The windows so far, added up.
        has_traced: Whether the first call over the pipeline traced, so that its wait is unknown.
        had_short_epoch: Whether data ended after one or two calls, whose waits were not known.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        phase: Phase,
        steps_per_execution: int,
        first_step: int,
        on_window: Callable[[StepWindow], None],
        reader: WaitReader,
        wall: WallTime | None,
        examples: ExampleCounter | None,
    ) -> None:
        self.totals = StepTotals(phase, steps_per_execution)
        self.had_short_epoch = False
        self._first_calls = FirstCalls(examples)
        self._calls = calls
        self._phase = phase
        self._steps_per_execution = steps_per_execution
        self._first_step = first_step
        self._on_window = on_window
        self._reader = reader
        self._wall = wall
        self._examples = examples
        # Of several steps in a call, all but the first belong to the call after the stretch.
        steps = READ_EVERY_STEPS - (steps_per_execution - 1)
        self._most_calls_to_a_reading = max(1, steps // steps_per_execution)
        self._calls_to_a_reading = 1
        self._is_new = self._is_short = self.has_traced = True
        # The current window.
        self._started_s: float | None = None
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
        self._reader.release()
        self._on_window = lambda window: None
        self._first_calls.begin(None)

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
        self._reader.drop()

    def follow(self, source: Any) -> None:
        """The steps to come are fed from a source."""
        self._raised = False
        self.totals.begin_epoch()
        self._is_new = self._reader.follow(source)
        self._is_short = True
        self._first_calls.begin(self._reader.meter)

    def note_first_call(self) -> None:
        """The first call over the source ended."""
        self._first_calls.note(*self._calls.times_s)

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
        self._first_calls.note(*self._calls.times_s[-2:])
        start = self._reader.start(first)
        self._add_start(start or self._first_calls.start)
        if self._examples is not None:
            self._examples.start()

    def _add_start(self, start: PipelineStart | None) -> None:
        self.totals.distribution.gap()
        if start is not None and self._is_new and not self.has_traced:
            self.totals.starts.add(start)
            if self._wall is not None:
                self._wall.add_epoch_wait(start.wait_s)

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
        self._reader.take()
        self._calls_taken, self._raised_taken = self._calls.count, self._raised

    def _stretch(self) -> Stretch:
        """The calls since the window began but the latest, which begins the next one."""
        times_s = np.fromiter(self._calls.times_s, np.float64, len(self._calls.times_s))
        stretch = Stretch(times_s[::2], times_s[1:-2:2], float(times_s[-1]), self._raised_taken)
        if self._wall is not None:
            self._wall.add_inside(float((stretch.exits_s - stretch.entries_s[:-1]).sum()))
        return stretch

    def end(self) -> None:
        """Ends the current window at the latest call, or an epoch that is too short for one."""
        if self._started_s is not None and len(self._calls.times_s) > 2:
            if self._calls.count > self._calls_taken:
                self._take()
            self._close()
        elif self._is_short:
            self._end_short()

    def _end_short(self) -> None:
        """Takes in the calls of an epoch of one or two."""
        calls = self._first_calls
        if calls.count == 0:
            self.had_short_epoch |= self._raised
            return
        if calls.count == 1:  # the second call would have done this
            self._add_start(calls.start)
        # The first call belongs to the pipeline's start.
        apart = int(self._is_new)
        if calls.count == apart:
            return
        began_s, durations_s, waits_s = calls.times_since(apart)
        reading = self._reader.judged(WaitReading(float(waits_s.sum()), waits_s), began_s)
        self._reader.note_bound()
        self._on_window(self._add(reading, durations_s, calls.examples_since(apart)))

    def _close(self) -> None:
        stretch = self._stretch()
        reading = self._reader.read(stretch, self._calls.before)
        window = self._add(
            reading,
            stretch.durations_s,
            None if self._examples is None else self._examples.read(),
            between_s=self._between_s(stretch),
            calls_after=1,
            after_s=stretch.next_exit_s - float(stretch.entries_s[-1]),
        )
        self._is_short = False
        self._begin()
        self._on_window(window)

    def _add(
        self,
        reading: WaitReading,
        durations_s: Times,
        examples: int | None,
        *,
        between_s: float | None = None,
        calls_after: int = 0,
        after_s: float = 0.0,
    ) -> StepWindow:
        """Makes a window of consecutive calls, and adds it to the totals.

        Args:
            reading: Their wait.
            durations_s: The time of each.
            examples: How many they were given.
            between_s: The time between them.
            calls_after: Calls since.
            after_s: The time since.
        """
        if reading.waits_s is not None:
            self.totals.distribution.add(reading.waits_s, durations_s)
        window = StepWindow(
            phase=self._phase,
            time_s=time.time(),
            step=self.step,
            steps=len(durations_s) * self._steps_per_execution,
            duration_s=float(durations_s.sum()),
            input_wait_s=reading.wait_s,
            examples=examples,
            buffered_batches=reading.buffered_batches,
            between_s=between_s,
        )
        self.totals.add(window)
        self.totals.step_times.add(
            durations_s,
            reading.waits_s,
            last_step=window.step - calls_after * self._steps_per_execution,
            ended_s=window.time_s - after_s,
        )
        return window

    def _between_s(self, stretch: Stretch) -> float | None:
        """The time between calls; None for `predict`, which fetches its batches there."""
        if self._phase == "predict":
            return None
        return float((stretch.entries_s[1:] - stretch.exits_s).sum())
