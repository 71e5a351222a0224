"""Decides when the meter is read, and where in the buffer of calls a window ends."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable
from typing import Any

from keras_gpukit.input.wait.calls import CallTimes, Counts
from keras_gpukit.input.wait.closed_windows import ClosedWindow, ClosedWindows, FirstCall, Start
from keras_gpukit.input.wait.meters import Meter
from keras_gpukit.records.steps import InputRecord

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

    It sets when the calls are due. `choose` returns a meter for an iterator before its first fetch,
    or why none fits. An epoch was short if its data ended after one or two calls whose waits are
    unknown.

    Attributes:
        raised: Whether a call over the source raised, for example at the end of the data.
    """

    def __init__(
        self,
        calls: CallTimes,
        choose: Callable[[Any], Meter | str],
        ended: ClosedWindows,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.had_short_epoch = False
        self._calls = calls
        self._choose = choose
        self._ended = ended
        self._now = now
        # The call after the window fetches too: the gaps of all its steps but the first need room.
        steps = READ_EVERY_STEPS - (calls.steps_per_execution - 1)
        self._most_calls_to_a_reading = max(1, steps // calls.steps_per_execution)
        self._calls_to_a_reading = 1
        # By iterator: one in use may already have fetched, and a meter must be chosen before.
        self._chosen: weakref.WeakKeyDictionary[Any, Meter | str] = weakref.WeakKeyDictionary()
        # The current pipeline.
        self._meter: Meter | None = None
        self._is_new = self._is_short = self._has_traced = True
        self._epoch_is_over = False
        self._first_calls: tuple[FirstCall, ...] = ()
        self._before_first: tuple[float | None, Counts] = None, ()
        # The current window.
        self._started_s: float | None = None
        self._readings: tuple[Any, ...] = ()
        self._calls_taken = 0
        self.raised = self._raised_taken = False
        self._is_cut = False
        self._counts: Counts = ()
        self._evaluated_s = -math.inf

    @property
    def began_s(self) -> float | None:
        """When the current window began, on the clock; None between windows."""
        return self._started_s

    def input(self) -> InputRecord:
        """Returns the input wait of the windows so far."""
        return self._ended.input(self._meter)

    def note_raised(self) -> None:
        """Notes that a call raised."""
        self.raised = True

    def drop(self) -> None:
        """Discards the current window, since the next call does not follow directly."""
        self._started_s = None
        self._calls.drop()
        self._readings = ()

    def stop(self, because: str) -> None:
        """Discards the current window; the wait is unknown from now on."""
        self.drop()
        self._ended.unknown_because = because

    def release(self) -> None:
        """Forgets the data of a run that is over, and its listener."""
        self._ended.release()
        self._meter = None
        self._choose = lambda source: "the run is over"
        self._chosen.clear()

    def follow(self, source: Any) -> None:
        """Notes that the next steps take their batches from a source."""
        self.raised = False
        chosen = self._chosen.get(source)
        self._is_new = chosen is None
        if chosen is None:
            self._chosen[source] = chosen = self._choose(source)
        self._meter = None if isinstance(chosen, str) else chosen
        self._ended.unknown_because = chosen if isinstance(chosen, str) else None
        # After a pause within an epoch, the steps of the same source go on.
        if self._is_new or self._epoch_is_over:
            self._ended.evaluate_later(None)
        self._epoch_is_over = False
        self._is_short = True
        self._first_calls = ()
        waited_s = self._meter.waited_s() if self._meter else None
        self._before_first = waited_s, () if waited_s is None else self._ended.count_examples()

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

    def switch(self) -> None:
        """Reads the meter, and begins a window, or ends one that is long enough."""
        if self._started_s is None:
            self._start()
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

    def evaluate(self) -> None:
        """Evaluates the windows that have ended, and passes them to the listener."""
        self._ended.evaluate()

    @property
    def _is_due(self) -> bool:
        """Whether the last evaluation at a window's end was a second ago; for short epochs."""
        return self._calls.times_s[-2] - self._evaluated_s >= WINDOW_S

    @property
    def _counts_as_start(self) -> bool:
        return self._is_new and not self._has_traced

    def _start(self) -> None:
        """Begins the first window over a source, after its second call."""
        meter = self._meter if self._meter and self._meter.reads_early else None
        self._calls_to_a_reading = self._most_calls_to_a_reading
        if meter is not None:
            first = max(1, FIRST_READING_AFTER_STEPS // self._calls.steps_per_execution)
            self._calls_to_a_reading = min(first, self._most_calls_to_a_reading)
        self._note_call()
        reading, calls = meter.take() if meter else None, self._first_calls
        seen = calls[0].as_start if calls else None
        self._counts = self._ended.count_examples()
        self._ended.evaluate_later(
            Start(self._calls.times_s, self._meter, reading, seen, self._counts_as_start)
        )
        self._begin()
        if self._is_due:
            self.evaluate()

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
        if self._meter is not None:
            self._readings = (*self._readings, self._meter.take())
        self._calls_taken, self._raised_taken = self._calls.count, self.raised

    def _close(self) -> None:
        """Ends the window; the latest call begins the next one."""
        calls = self._calls
        readings, self._readings = self._readings, ()
        before, self._counts = self._counts, self._ended.count_examples()
        self._ended.evaluate_later(
            ClosedWindow(
                times_s=calls.times_s,
                raised=self._raised_taken,
                meter=self._meter,
                readings=readings,
                suspended=self._ended.suspended_since(calls.times_s[0]),
                counts=(before, self._counts),
                step=calls.step,
                time_s=self._latest_unix_s(),
            )
        )
        self._is_short = False
        is_due = self._is_due
        self._begin()
        if is_due:
            self._evaluated_s = calls.times_s[-2]
            self.evaluate()

    def _latest_unix_s(self) -> float:
        """Returns when the latest call returned, in seconds since the Unix epoch."""
        return time.time() - (self._now() - self._calls.times_s[-1])

    def _note_call(self) -> None:
        """Keeps the latest call, one of the first two over the source, if its wait is known."""
        before_s, counts = self._before_first
        waited_s = self._meter.waited_s() if self._meter else None
        if before_s is None or waited_s is None:
            return
        entry_s, exit_s = self._calls.times_s[-2:]
        after = self._ended.count_examples()
        wait_s = min(waited_s - before_s, exit_s - entry_s)
        call = FirstCall(entry_s, exit_s, wait_s, (counts, after))
        self._first_calls, self._before_first = (*self._first_calls, call), (waited_s, after)

    def _end_short(self) -> None:
        """Evaluates the calls of an epoch that had only one or two."""
        calls = self._first_calls
        if not calls:
            self.had_short_epoch |= self.raised
            return
        self.evaluate()
        if len(calls) == 1:  # a second call has noted the start
            began_s, is_counted = calls[0].entry_s, self._counts_as_start
            self._ended.add_start(calls[0].as_start, began_s, is_counted=is_counted)
        # The first call over a new pipeline belongs to the pipeline's start.
        if len(calls) > int(self._is_new):
            calls = calls[int(self._is_new) :]
            self._ended.add_short(calls, self._calls.step, self._latest_unix_s())
