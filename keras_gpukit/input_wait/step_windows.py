"""The windows of steps that a step function's calls come to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from keras_gpukit.input_wait.calls import Calls, FirstCalls
from keras_gpukit.input_wait.ended_windows import EndedWindow, EndedWindows
from keras_gpukit.input_wait.examples import Counts, ExampleCounter
from keras_gpukit.input_wait.meters import WaitReading
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
        self._ended = EndedWindows(phase, steps_per_execution, on_window, wall, examples)
        self.totals = self._ended.totals
        self.had_short_epoch = False
        self._first_calls = FirstCalls(examples)
        self._calls = calls
        self._steps_per_execution = steps_per_execution
        self._first_step = first_step
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
        self._counts: Counts = ()
        self._worked_out_s = -math.inf

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

    def work_out(self) -> None:
        """Makes the windows that have ended and were put off."""
        self._ended.work_out()

    def release(self) -> None:
        """Forgets the data of a run that is over, and its listener."""
        self._ended.release()
        self._reader.release()
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
        self._ended.begin_epoch()
        self._is_new = self._reader.follow(source)
        self._is_short = True
        self._first_calls.begin(self._reader.meter)

    def note_first_call(self) -> None:
        """The first call over the source ended."""
        self._first_calls.note(*self._calls.times_s)

    def turn(self) -> None:
        """Reads the meter; begins a window, or ends one that is long enough."""
        if self._started_s is None:
            self._calls_to_a_reading = self._most_calls_to_a_reading
            if self._reader.reads_early:
                first = max(1, FIRST_READING_AFTER_STEPS // self._steps_per_execution)
                self._calls_to_a_reading = min(first, self._most_calls_to_a_reading)
            self._start()
            self._begin()
            return
        self._take()
        twice = 2 * self._calls_to_a_reading
        self._calls_to_a_reading = min(twice, self._most_calls_to_a_reading)
        if self._calls.times_s[-2] - self._started_s >= WINDOW_S:
            self._close()
        else:
            self._set_due()

    @property
    def _is_due(self) -> bool:
        """Whether nothing is put off any longer: only short epochs come here sooner."""
        return self._calls.times_s[-2] - self._worked_out_s >= WINDOW_S

    def _start(self) -> None:
        times_s = self._calls.times_s
        self._first_calls.note(*times_s[-2:])
        read, seen = self._reader.start(), self._first_calls.start
        self._counts = self._take_counts()
        self._ended.start(times_s, lambda first: read(first) or seen, counts=self._counts_as_start)
        if self._is_due:
            self.work_out()

    @property
    def _counts_as_start(self) -> bool:
        return self._is_new and not self.has_traced

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
            began_s = self._calls.times_s[0]
            self._ended.start_alone(calls.start, began_s, counts=self._counts_as_start)
        # The first call belongs to the pipeline's start.
        apart = int(self._is_new)
        if calls.count > apart:
            began_s, durations_s, waits_s = calls.times_since(apart)
            reading = self._reader.judged(WaitReading(float(waits_s.sum()), waits_s), began_s)
            self._reader.note_bound()
            examples = calls.examples_since(apart)
            self._ended.end_short(durations_s, reading, examples, self.step, time.time())
        self.work_out()

    def _close(self) -> None:
        """Ends the window; the latest call begins the next one."""
        read = self._reader.end(self._calls.times_s[0], self._calls.before)
        before, self._counts = self._counts, self._take_counts()
        window = EndedWindow(
            self._calls.times_s,
            self._raised_taken,
            read,
            (before, self._counts),
            self.step,
            time.time(),
        )
        self._ended.end(window)
        self._is_short = False
        is_due = self._is_due
        self._begin()
        if is_due:
            self._worked_out_s = self._calls.times_s[-2]
            self.work_out()

    def _take_counts(self) -> Counts:
        return () if self._examples is None else self._examples.take()
