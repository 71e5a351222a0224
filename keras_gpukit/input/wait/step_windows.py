"""Makes windows of steps from the buffer of calls.

When a window ends, only the meter is read. It is evaluated later, about once a second: training
waits meanwhile, and the step has emptied the CPU caches, so that evaluating the windows of many
short epochs together takes a fraction of the time.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keras_gpukit.input.wait.calls import Calls
from keras_gpukit.input.wait.examples import Counts, ExampleCounter
from keras_gpukit.input.wait.meters import PipelineStart, Stretch, Times, WaitReading
from keras_gpukit.input.wait.totals import StepTotals
from keras_gpukit.input.wait.wait_reader import Taken, WaitReader
from keras_gpukit.records.steps import StepWindow

# tf.data keeps the last 100 gaps between fetches: with readings at least this often, none is lost.
READ_EVERY_STEPS = 96
# The first reading comes early, and the distance to the next one then doubles: short epochs must be
# measured too, and at their end the pipeline has already released its stages.
FIRST_READING_AFTER_STEPS = 8
# Shortest window, unless steps pause. A finer time series would not help the reader, and writing it
# would add overhead.
WINDOW_S = 1.0


class _Start(NamedTuple):
    """The start of a pipeline: the times of its first two calls, and what was read after them."""

    times_s: list[float]
    taken: Taken
    seen: PipelineStart | None
    is_counted: bool


class _Ended(NamedTuple):
    """A window that has ended.

    Attributes:
        times_s: Entry and exit times, alternating, of its calls and of the call after them.
        raised: Whether one more call raised before the last reading; see `Stretch`.
        taken: Readings of the meter.
        counts: Counts of examples at its start and at its end.
        step: Global step at its end.
        time_s: Time of its end, in seconds since the Unix epoch.
    """

    times_s: list[float]
    raised: bool
    taken: Taken
    counts: tuple[Counts, Counts]
    step: int
    time_s: float


class _FirstCall(NamedTuple):
    """One of an epoch's first two calls, whose wait the meter knows.

    An epoch of one or two calls has no regular window: the first call, which waits for the
    pipeline's start, is in no window, and a window only ends when the call after it is entered.
    """

    entry_s: float
    exit_s: float
    wait_s: float
    counts: tuple[Counts, Counts]


_EPOCH = object()


class StepWindows:
    """Reads the meter of the current pipeline often enough, and makes windows of steps.

    Args:
        calls: Calls of the step function; their due times are set here.
        totals: Adds up the windows.
        waits: Reads how long steps waited.
        on_window: Called with each finished window.
        on_start: Called with the wait for an epoch's first batch and its beginning on the clock.
        examples: Counts examples; None if they are not counted.
        now: The clock, in seconds.

    Attributes:
        had_short_epoch: Whether the data of an epoch ended after one or two calls whose waits are
            unknown.
    """

    def __init__(
        self,
        calls: Calls,
        totals: StepTotals,
        waits: WaitReader,
        *,
        on_window: Callable[[StepWindow], None],
        on_start: Callable[[float, float], None] = lambda wait_s, began_s: None,
        examples: ExampleCounter | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.had_short_epoch = False
        self._calls = calls
        self._totals = totals
        self._waits = waits
        self._on_window = on_window
        self._on_start = on_start
        self._examples = examples
        self._now = now
        # The call after the stretch fetches too: the gaps of all its steps but the first need room.
        steps = READ_EVERY_STEPS - (calls.steps_per_execution - 1)
        self._most_calls_to_a_reading = max(1, steps // calls.steps_per_execution)
        self._calls_to_a_reading = 1
        # The current pipeline.
        self._is_new = self._is_short = self._has_traced = True
        self._epoch_is_over = False
        self._first_calls: tuple[_FirstCall, ...] = ()
        self._before_first: tuple[float | None, Counts] = None, ()
        # The current window.
        self._started_s: float | None = None
        self._calls_taken = 0
        self._raised = self._raised_taken = False
        self._is_cut = False
        self._counts: Counts = ()
        # What has ended and is not evaluated yet.
        self._later: deque[Any] = deque()
        self._worked_out_s = -math.inf

    @property
    def began_s(self) -> float | None:
        """When the current window began, on the clock; None between windows."""
        return self._started_s

    def note_raised(self) -> None:
        """Notes that a call raised, for example at the end of the data."""
        self._raised = True

    def drop(self) -> None:
        """Discards the current window, since the next call does not follow directly."""
        self._started_s = None
        self._calls.drop()
        self._waits.drop()

    def stop(self, because: str) -> None:
        """Discards the current window; the wait is unknown from now on."""
        self.drop()
        self._waits.stop(because)

    def release(self) -> None:
        """Forgets the data of a run that is over, and its listener."""
        self._later.clear()
        self._on_window = lambda window: None
        self._waits.release()

    def follow(self, source: Any) -> None:
        """Notes that the next steps take their batches from a source."""
        self._raised = False
        self._is_new = self._waits.follow(source)
        # After a pause within an epoch, the steps of the same source go on.
        if self._is_new or self._epoch_is_over:
            self._later.append(_EPOCH)
        self._epoch_is_over = False
        self._is_short = True
        self._first_calls = ()
        waited_s = self._waits.meter.waited_s() if self._waits.meter else None
        self._before_first = waited_s, () if waited_s is None else self._take_counts()

    def end_epoch(self) -> None:
        """Notes that the steps of an epoch are over."""
        self._epoch_is_over = True

    def note_first_call(self, traced: bool) -> None:
        """Notes that the first call over the source has ended, and whether it has traced."""
        self._has_traced = traced
        self._note_call()

    def cut(self) -> None:
        """Ends the current window at the start of the call that is under way."""
        self._is_cut = True
        self._calls.due_times = 0

    def turn(self) -> None:
        """Reads the meter, and begins a window, or ends one that is long enough."""
        if self._started_s is None:
            self._calls_to_a_reading = self._most_calls_to_a_reading
            if self._waits.reads_early:
                first = max(1, FIRST_READING_AFTER_STEPS // self._calls.steps_per_execution)
                self._calls_to_a_reading = min(first, self._most_calls_to_a_reading)
            self._note_call()
            taken, seen = self._waits.start(), self._seen_start()
            self._counts = self._take_counts()
            self._later.append(_Start(self._calls.times_s, taken, seen, self._counts_as_start))
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

    def end(self) -> None:
        """Ends the current window at the latest call, or an epoch too short for a window."""
        if self._started_s is not None and len(self._calls.times_s) > 2:
            if self._calls.count > self._calls_taken:
                self._take()
            self._close()
        elif self._is_short:
            self._end_short()

    def work_out(self) -> None:
        """Evaluates the windows that have ended, and passes them to the listener."""
        windows = []
        while self._later:
            each = self._later.popleft()
            if isinstance(each, _Ended):
                windows.append(self._evaluated(each))
            elif isinstance(each, _Start):
                start = self._waits.start_of(each.taken, _stretch(each.times_s)) or each.seen
                self._add_start(start, each.times_s[0], each.is_counted)
            else:
                self._totals.begin_epoch()
        for window in windows:  # only now, since the listener may read the totals
            self._on_window(window)

    @property
    def _is_due(self) -> bool:
        """Whether the last evaluation at a window's end was a second ago; for short epochs."""
        return self._calls.times_s[-2] - self._worked_out_s >= WINDOW_S

    @property
    def _counts_as_start(self) -> bool:
        return self._is_new and not self._has_traced

    def _begin(self) -> None:
        """Begins a window with the latest call."""
        self._calls.drop(but=1)
        self._started_s = self._calls.times_s[0]
        self._is_cut = False
        self._calls.due_s = self._started_s + WINDOW_S
        self._set_due()

    def _set_due(self) -> None:
        self._calls.due_times = len(self._calls.times_s) + 2 * self._calls_to_a_reading

    def _take(self) -> None:
        self._waits.take()
        self._calls_taken, self._raised_taken = self._calls.count, self._raised

    def _close(self) -> None:
        """Ends the window; the latest call begins the next one."""
        calls = self._calls
        taken = self._waits.end(calls.times_s[0], calls.before)
        before, self._counts = self._counts, self._take_counts()
        counts = before, self._counts
        self._later.append(
            _Ended(
                calls.times_s, self._raised_taken, taken, counts, calls.step, self._latest_unix_s()
            )
        )
        self._is_short = False
        is_due = self._is_due
        self._begin()
        if is_due:
            self._worked_out_s = calls.times_s[-2]
            self.work_out()

    def _latest_unix_s(self) -> float:
        """Returns when the latest call returned, in seconds since the Unix epoch."""
        return time.time() - (self._now() - self._calls.times_s[-1])

    def _take_counts(self) -> Counts:
        return () if self._examples is None else self._examples.take()

    def _note_call(self) -> None:
        """Keeps the latest call, one of the first two over the source, if its wait is known."""
        (before_s, counts), meter = self._before_first, self._waits.meter
        waited_s = meter.waited_s() if meter else None
        if before_s is None or waited_s is None:
            return
        entry_s, exit_s = self._calls.times_s[-2:]
        after = self._take_counts()
        wait_s = min(waited_s - before_s, exit_s - entry_s)
        call = _FirstCall(entry_s, exit_s, wait_s, (counts, after))
        self._first_calls, self._before_first = (*self._first_calls, call), (waited_s, after)

    def _seen_start(self) -> PipelineStart | None:
        """Returns the wait of the first call over the source; None if unknown."""
        first = self._first_calls[:1]
        return PipelineStart(first[0].wait_s, shuffle_fraction=None) if first else None

    def _end_short(self) -> None:
        """Evaluates the calls of an epoch that had only one or two."""
        calls = self._first_calls
        if not calls:
            self.had_short_epoch |= self._raised
            return
        self.work_out()
        if len(calls) == 1:  # a second call has noted the start
            self._add_start(self._seen_start(), calls[0].entry_s, self._counts_as_start)
        # The first call over a new pipeline belongs to the pipeline's start.
        calls = calls[int(self._is_new) :]
        if not calls:
            return
        # A duration ends at the next call's entry; that of the last call ends when it returns.
        durations_s = np.diff([*(each.entry_s for each in calls), calls[-1].exit_s])
        waits_s = np.array([each.wait_s for each in calls])
        reading = self._waits.known(WaitReading(float(waits_s.sum()), waits_s), calls[0].entry_s)
        examples = None
        if self._examples is not None:
            before, after = calls[0].counts[0], calls[-1].counts[1]
            examples = self._examples.between(before, after, len(calls), full=False)
        window = self._window(
            durations_s, reading, examples, self._calls.step, self._latest_unix_s()
        )
        self._totals.add_calls(durations_s, reading.waits_s, window.step, window.time_s)
        self._on_window(window)

    def _add_start(self, start: PipelineStart | None, began_s: float, is_counted: bool) -> None:
        self._totals.add_start(start if is_counted else None)
        if start is not None and is_counted:
            self._on_start(start.wait_s, began_s)

    def _evaluated(self, ended: _Ended) -> StepWindow:
        stretch = _stretch(ended.times_s, ended.raised)
        reading = self._waits.wait_of(ended.taken, stretch)
        examples = None
        if self._examples is not None:
            examples = self._examples.between(*ended.counts, stretch.calls)
        # `predict` fetches its batches between the calls.
        in_predict = self._totals.phase == "predict"
        between_s = None if in_predict else float((stretch.entries_s[1:] - stretch.exits_s).sum())
        window = self._window(
            stretch.durations_s, reading, examples, ended.step, ended.time_s, between_s
        )
        # The call after the stretch has ended too.
        last_step = ended.step - self._calls.steps_per_execution
        ended_s = ended.time_s - (stretch.next_exit_s - float(stretch.entries_s[-1]))
        self._totals.add_calls(stretch.durations_s, reading.waits_s, last_step, ended_s)
        return window

    def _window(
        self,
        durations_s: Times,
        reading: WaitReading,
        examples: int | None,
        step: int,
        time_s: float,
        between_s: float | None = None,
    ) -> StepWindow:
        """Makes a window of consecutive calls, and adds it to the totals."""
        window = StepWindow(
            phase=self._totals.phase,
            time_s=time_s,
            step=step,
            steps=len(durations_s) * self._calls.steps_per_execution,
            duration_s=float(durations_s.sum()),
            input_wait_s=reading.wait_s,
            most_wait_s=reading.most_s,
            examples=examples,
            buffered_batches=reading.buffered_batches,
            between_s=between_s,
        )
        self._totals.add(window)
        return window


def _stretch(calls_s: list[float], raised: bool = False) -> Stretch:
    """Returns all calls but the last, which begins the next window."""
    times_s = np.fromiter(calls_s, np.float64, len(calls_s))
    return Stretch(times_s[::2], times_s[1:-2:2], float(times_s[-1]), raised)
