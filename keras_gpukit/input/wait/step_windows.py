"""Groups the calls of a step function into windows of steps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from keras_gpukit.input.wait.calls import Calls, FirstCalls
from keras_gpukit.input.wait.ended_windows import EndedWindow, EndedWindows
from keras_gpukit.input.wait.examples import Counts, ExampleCounter
from keras_gpukit.input.wait.meters import WaitReading
from keras_gpukit.input.wait.wait_reader import WaitReader
from keras_gpukit.input.wait.wall_time import WallTime
from keras_gpukit.records.steps import Phase, StepWindow

# tf.data keeps the last 100 gaps between fetches: with readings at least this often, none is lost.
READ_EVERY_STEPS = 96
# The first reading comes early, and the distance to the next one then doubles: short epochs must be
# measured too, and at their end the pipeline has already released its stages.
FIRST_READING_AFTER_STEPS = 8
# Shortest window, unless steps pause. A finer time series would not help the reader, and writing it
# would add overhead.
WINDOW_S = 1.0


class StepWindows:
    """Reads the meter of the current pipeline often enough, and makes windows of steps.

    Args:
        calls: Calls of the step function; their due times are set here.
        phase: "fit", "evaluate" or "predict".
        steps_per_execution: Number of steps in one call.
        first_step: Global step before the first call.
        on_window: Called with each finished window.
        reader: Reads how long steps waited.
        wall: Accounts for the call's wall time; None for a phase inside the call.
        examples: Counts examples; None if they are not counted.
        now: The clock, in seconds.

    Attributes:
        totals: Totals of the windows so far.
        has_traced: Whether the first call over the pipeline traced, so that its wait is unknown.
        had_short_epoch: Whether the data of an epoch ended after one or two calls whose waits are
            unknown.
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
        now: Callable[[], float],
    ) -> None:
        self._ended = EndedWindows(phase, steps_per_execution, on_window, wall, examples)
        self.totals = self._ended.totals
        self.had_short_epoch = False
        self._first_calls = FirstCalls(None, None)
        self._calls = calls
        self._steps_per_execution = steps_per_execution
        self._first_step = first_step
        self._reader = reader
        self._wall = wall
        self._examples = examples
        self._now = now
        # The call after the stretch fetches too: the gaps of all its steps but the first need room.
        steps = READ_EVERY_STEPS - (steps_per_execution - 1)
        self._most_calls_to_a_reading = max(1, steps // steps_per_execution)
        self._calls_to_a_reading = 1
        self._is_new = self._is_short = self.has_traced = True
        self._epoch_is_over = False
        # The current window.
        self._started_s: float | None = None
        self._calls_taken = 0
        self._raised = self._raised_taken = False
        self._is_cut = False
        self._counts: Counts = ()
        self._worked_out_s = -math.inf

    @property
    def step(self) -> int:
        """Global step."""
        return self._first_step + self._calls.count * self._steps_per_execution

    @property
    def began_s(self) -> float | None:
        """When the current window began, on the clock; None between windows."""
        return self._started_s

    @property
    def steps_before(self) -> int:
        """Number of steps of the run before the current window."""
        return self._calls.before * self._steps_per_execution

    def work_out(self) -> None:
        """Evaluates the windows that have ended and are still queued."""
        self._ended.work_out()

    def release(self) -> None:
        """Forgets the data of a run that is over, and its listener."""
        self._ended.release()
        self._reader.release()
        self._first_calls = FirstCalls(None, None)

    def note_raised(self) -> None:
        """Notes that a call raised, for example at the end of the data."""
        self._raised = True

    def drop(self) -> None:
        """Discards the current window, since the next call does not follow directly."""
        if self._wall is not None:
            times_s = self._calls.times_s
            self._wall.add_inside(sum(times_s[1::2]) - sum(times_s[::2]))
        self._started_s = None
        self._calls.keep([], self._calls.count)
        self._reader.drop()

    def follow(self, source: Any) -> None:
        """Notes that the next steps take their batches from a source."""
        self._raised = False
        self._is_new = self._reader.follow(source)
        # After a pause within an epoch, the steps of the same source go on.
        if self._is_new or self._epoch_is_over:
            self._ended.begin_epoch()
        self._epoch_is_over = False
        self._is_short = True
        self._first_calls = FirstCalls(self._examples, self._reader.meter)

    def end_epoch(self) -> None:
        """Notes that the steps of an epoch are over."""
        self._epoch_is_over = True

    def note_first_call(self) -> None:
        """Notes that the first call over the source has ended."""
        self._first_calls.note(*self._calls.times_s)

    def cut(self) -> None:
        """Ends the current window at the start of the call that is under way."""
        self._is_cut = True
        self._calls.due_times = 0

    def turn(self) -> None:
        """Reads the meter, and begins a window, or ends one that is long enough."""
        if self._started_s is None:
            self._calls_to_a_reading = self._most_calls_to_a_reading
            if self._reader.reads_early:
                first = max(1, FIRST_READING_AFTER_STEPS // self._steps_per_execution)
                self._calls_to_a_reading = min(first, self._most_calls_to_a_reading)
            self._start()
            self._begin()
            if self._is_due:
                self.work_out()
            return
        self._take()
        twice = 2 * self._calls_to_a_reading
        self._calls_to_a_reading = min(twice, self._most_calls_to_a_reading)
        if self._is_cut or self._calls.times_s[-2] - self._started_s >= WINDOW_S:
            self._close()
        else:
            self._set_due()

    @property
    def _is_due(self) -> bool:
        """Whether the last evaluation at a window's end was a second ago; for short epochs."""
        return self._calls.times_s[-2] - self._worked_out_s >= WINDOW_S

    def _start(self) -> None:
        times_s = self._calls.times_s
        self._first_calls.note(*times_s[-2:])
        read, seen = self._reader.start(), self._first_calls.start
        self._counts = self._take_counts()
        self._ended.start(times_s, lambda first: read(first) or seen, counts=self._counts_as_start)

    @property
    def _counts_as_start(self) -> bool:
        return self._is_new and not self.has_traced

    def _begin(self) -> None:
        """Begins a window with the latest call."""
        self._calls.keep(self._calls.times_s[-2:], self._calls.count - 1)
        self._started_s = self._calls.times_s[0]
        self._is_cut = False
        self._calls.due_s = self._started_s + WINDOW_S
        self._set_due()

    def _set_due(self) -> None:
        self._calls.due_times = len(self._calls.times_s) + 2 * self._calls_to_a_reading

    def _take(self) -> None:
        self._reader.take()
        self._calls_taken, self._raised_taken = self._calls.count, self._raised

    def end(self) -> None:
        """Ends the current window at the latest call, or an epoch too short for a window."""
        if self._started_s is not None and len(self._calls.times_s) > 2:
            if self._calls.count > self._calls_taken:
                self._take()
            self._close()
        elif self._is_short:
            self._end_short()

    def _end_short(self) -> None:
        """Queues and evaluates the calls of an epoch that had only one or two."""
        calls = self._first_calls
        if calls.count == 0:
            self.had_short_epoch |= self._raised
            return
        if calls.count == 1:  # a second call would have queued the start
            began_s = self._calls.times_s[0]
            self._ended.start_alone(calls.start, began_s, counts=self._counts_as_start)
        # The first call over a new pipeline belongs to the pipeline's start.
        apart = int(self._is_new)
        if calls.count > apart:
            began_s, durations_s, waits_s = calls.times_since(apart)
            reading = self._reader.judged(WaitReading(float(waits_s.sum()), waits_s), began_s)
            self._reader.note_bound()
            examples = calls.examples_since(apart)
            self._ended.end_short(durations_s, reading, examples, self.step, self._latest_unix_s())
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
            self._latest_unix_s(),
        )
        self._ended.end(window)
        self._is_short = False
        is_due = self._is_due
        self._begin()
        if is_due:
            self._worked_out_s = self._calls.times_s[-2]
            self.work_out()

    def _latest_unix_s(self) -> float:
        """Returns when the latest call returned, in seconds since the Unix epoch."""
        return time.time() - (self._now() - self._calls.times_s[-1])

    def _take_counts(self) -> Counts:
        return () if self._examples is None else self._examples.take()
