"""Times a model's step function, in windows of steps."""

from __future__ import annotations

import functools
import math
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from keras_gpukit.errors import give_up
from keras_gpukit.input_wait.examples import ExampleCounter
from keras_gpukit.input_wait.meters import Meter, Reading, Stretch
from keras_gpukit.input_wait.spread import Spread
from keras_gpukit.input_wait.starts import PipelineStarts
from keras_gpukit.input_wait.timed_fetch import RequestMeter
from keras_gpukit.input_wait.wall_time import WallTime
from keras_gpukit.records.steps import Phase, StepWindow

# tf.data remembers the last 100 gaps between fetches: a reading at least so often misses none.
READ_EVERY_STEPS = 96
# But the first time soon, and then at twice the distance: short epochs are to be seen too, and at
# their end a pipeline has let its stages go.
FIRST_READING_AFTER_STEPS = 8
# A finer course than this nobody reads, and writing it would cost.
WINDOW_S = 1.0

_NOTHING = object()

StepFunction = Callable[[Any], Any]


class _Calls:
    """What each call looks at, in a place of its own: a single cache line.

    Attributes:
        source: What steps are fed from, kept alive only while they are.
        times_s: When calls were entered and left, in turn, since the window began, the call it
            began with included.
        due_times: The meter is due when there are so many times,
        due_s: or when a call is entered so late.
    """

    __slots__ = ("due_s", "due_times", "source", "times_s")

    def __init__(self) -> None:
        self.source: Any = _NOTHING
        self.forget()

    def forget(self) -> None:
        """Drops the times."""
        self.times_s: list[float] = []
        self.due_times: int = sys.maxsize
        self.due_s: float = math.inf


class StepClock:
    """Notes when a step function is entered and left; that and a meter give time and input wait.

    Windows leave out the first step over each pipeline, in which functions are traced and buffers
    filled, and the last, which has no next step to end it.

    Args:
        phase: What the step function belongs to.
        steps_per_execution: Steps in one call of the step function.
        first_step: Global step before the first call.
        on_window: Called with each finished window.
        on_error: Called with an exception by which a step fails; the end of the data is none.
        choose: Picks a meter for an iterator, or says why none fits.
        wall: Is told which part of the wall time begins.
        examples: Counts examples; None where they are not counted.
        around_first_call: Entered around the first call.
        accepts: Whether steps fed from a source are timed; others are only passed on.
        stood_still_since: Whether the process stood still since a moment of the clock; then nobody
            can tell what waited for what.
        now: The clock, in seconds.
    """

    def __init__(
        self,
        *,
        phase: Phase,
        steps_per_execution: int,
        first_step: int,
        on_window: Callable[[StepWindow], None],
        choose: Callable[[Any], Meter | str],
        wall: WallTime | None = None,
        on_error: Callable[[BaseException], None] | None = None,
        examples: ExampleCounter | None = None,
        around_first_call: AbstractContextManager[Any] | None = None,
        accepts: Callable[[Any], bool] = lambda source: True,
        stood_still_since: Callable[[float], bool] = lambda moment_s: False,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.pipelines = 0
        """How often steps began anew, over another pipeline or after a pause."""
        self.overhead_s = 0.0
        """What choosing and reading meters cost on the training thread so far."""
        self.startup_s = 0.0
        """What of that came with the first pipeline, once."""
        self.meter: Meter | None = None
        self.unknown_because: str | None = None
        self.spread = Spread(steps_per_execution)
        self.starts = PipelineStarts()
        self._phase = phase
        self.steps_per_execution = steps_per_execution
        self._first_step = first_step
        self._on_window = on_window
        self._on_error = on_error
        self._choose = choose
        self._wall = wall
        self._examples = examples
        self._around_first_call = around_first_call or nullcontext()
        self._accepts = accepts
        self._stood_still_since = stood_still_since
        self._now = now
        # Of several steps in a call, all but the first belong to the call after the stretch.
        steps = READ_EVERY_STEPS - (steps_per_execution - 1)
        self._most_calls_to_a_reading = max(1, steps // steps_per_execution)
        self._calls_to_a_reading = 1
        self._given_up = False
        # A source that comes again keeps its meter: choosing another may only be done before
        # anything was fetched.
        self._chosen: weakref.WeakKeyDictionary[Any, Meter | str] = weakref.WeakKeyDictionary()
        self._is_new = True
        self._raised = False
        self._calls = _Calls()
        self._calls_before = 0
        # The window under way.
        self._started_s: float | None = None
        self._taken: list[Any] = []
        self._calls_taken = 0
        self._raised_taken = False

    @property
    def calls(self) -> int:
        """Calls of the step function."""
        return self._calls_before + len(self._calls.times_s) // 2

    @property
    def steps(self) -> int:
        """Steps that ran."""
        return self.calls * self.steps_per_execution

    @property
    def recurring_s(self) -> float:
        """What timing costs on the training thread again and again, so far."""
        return self.overhead_s - self.startup_s + self.calls * _cost_of_a_call_s()

    @property
    def step(self) -> int:
        """Global step."""
        return self._first_step + self.steps

    def wrap(self, step_function: StepFunction) -> StepFunction:
        """Returns the step function, which is given an iterator, with its calls noted.

        It is called the same way with the same iterator, and what it raises passes through.
        """
        # Every step runs through this, on caches that the step before has emptied: each further
        # function, and each further object, costs a large part of a microsecond.
        now, calls = self._now, self._calls

        @functools.wraps(step_function)
        def timed(iterator: Any) -> Any:
            entry_s = now()
            if iterator is not calls.source:
                return self._first_call(step_function, iterator, entry_s)
            try:
                outputs = step_function(iterator)
            except BaseException as error:
                self._raise(entry_s, error)
                raise
            # Only now, since the call after the last batch raises and is no step.
            times_s = calls.times_s
            times_s.append(entry_s)
            times_s.append(now())
            if len(times_s) >= calls.due_times or entry_s >= calls.due_s:
                self._guarded(self._turn)
            return outputs

        return timed

    def wrap_batches(self, step_function: StepFunction, meter: RequestMeter) -> StepFunction:
        """The same for a step function that is given batches fetched beforehand."""
        fetched: list[Any] = []
        timed = self.wrap(lambda meter: step_function(fetched.pop()))

        @functools.wraps(step_function)
        def timed_batches(batches: Any) -> Any:
            meter.fetched()
            fetched.append(batches)
            return timed(meter)

        return timed_batches

    @property
    def saw_every_step(self) -> bool:
        """Whether steps ran and all of them were timed."""
        return self.calls > 0 and not self._given_up

    def stop(self, because: str) -> None:
        """Times no more: from here on each call is only passed on, and counted.

        Args:
            because: Why.
        """
        self._given_up = True
        self._calls.source = _NOTHING
        self._no_window()
        # What was measured before stays, with the name of its meter.
        self.unknown_because = because

    def leave(self) -> None:
        """The phase is over, but others go on calling: that is passed on, and not counted."""
        self._accepts = lambda source: False
        self._calls.source = _NOTHING
        self._no_window()

    def pause(self) -> None:
        """Ends the window: what follows until the next step is no step's time."""
        times_s = self._calls.times_s
        if len(times_s) % 2:
            times_s.pop()  # an interrupt came between the two of a call
        if self._started_s is not None and len(times_s) > 2:
            self._guarded(self._end_window)
        if self._calls.times_s and self._wall is not None and not self._raised:
            self._wall.end_steps(self._calls.times_s[-1])
        self._calls.source = _NOTHING
        self._no_window()

    def _first_call(self, step_function: StepFunction, source: Any, entry_s: float) -> Any:
        """The first step over a pipeline, or over one that was paused."""
        if self._given_up or not self._accepts(source):
            outputs = step_function(source)
            self._calls_before += self._accepts(source)
            return outputs
        self._no_window()
        self._raised = False
        self.pipelines += 1
        self._guarded(self._take_up, source)
        is_first_of_run = self.calls == 0
        if self._wall is not None:
            self._wall.turn("first step" if is_first_of_run else "steps", entry_s)
        around, self._around_first_call = self._around_first_call, nullcontext()
        try:
            with around:
                outputs = step_function(source)
        except BaseException as error:
            if self._on_error is not None and not _is_end_of_data(error):
                self._guarded(self._on_error, error)
            raise
        exit_s = self._now()
        if self._wall is not None and is_first_of_run:
            self._wall.turn("steps", exit_s)
            self._wall.add_inside(entry_s - exit_s)  # it will be counted with the others
        self._calls.times_s = [entry_s, exit_s]
        if not self._given_up:
            # Not before: a first call that raises is followed by another first one.
            self._calls.source = source
            self._calls.due_times = 4  # the window begins with the next call
        return outputs

    def release(self) -> None:
        """Forgets what steps were fed from, and whom to tell of them."""
        self._calls.source = _NOTHING
        self.meter = self._on_error = None
        self._choose = lambda source: "the call is over"
        self._accepts = lambda source: False
        self._on_window = lambda window: None
        self._chosen.clear()

    def _raise(self, entry_s: float, error: BaseException) -> None:
        self._raised = True
        if self._on_error is not None and not _is_end_of_data(error):
            self._guarded(self._on_error, error)
        if self._wall is not None:
            # Mostly the end of the data, which was looked for.
            self._wall.turn("epoch start", entry_s)
            self._wall.turn("other")

    def _no_window(self) -> None:
        if self._wall is not None:
            times_s = self._calls.times_s
            self._wall.add_inside(sum(times_s[1::2]) - sum(times_s[::2]))
        self._calls_before = self.calls
        self._started_s = None
        self._calls.forget()
        self._taken = []

    def _take_up(self, source: Any) -> None:
        self._is_new = source not in self._chosen
        if self._is_new:
            self._chosen[source] = self._choose(source)
        chosen = self._chosen[source]
        if isinstance(chosen, str):
            self.meter, self.unknown_because = None, chosen
        else:
            self.meter, self.unknown_because = chosen, None

    def _turn(self) -> None:
        """Reads the meter; begins a window, or ends one that is long enough."""
        if self._started_s is None:
            first = max(1, FIRST_READING_AFTER_STEPS // self.steps_per_execution)
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
        is_first_of_run = self.calls == 2
        start = None if self.meter is None else self.meter.start(first)
        if start is not None and self._is_new and not is_first_of_run:
            self.starts.add(start)
            if self._wall is not None:
                self._wall.add_epoch_wait(start.wait_s)
        self.spread.gap()
        if self._examples is not None:
            self._examples.start()

    def _begin(self) -> None:
        """A window begins with the latest call."""
        self._calls_before = self.calls - 1
        self._calls.times_s = self._calls.times_s[-2:]
        self._started_s = self._calls.times_s[0]
        self._calls.due_s = self._started_s + WINDOW_S
        self._set_due()

    def _set_due(self) -> None:
        self._calls.due_times = len(self._calls.times_s) + 2 * self._calls_to_a_reading

    def _take(self) -> None:
        if self.meter is not None:
            self._taken.append(self.meter.take())
        self._calls_taken, self._raised_taken = self.calls, self._raised

    def _stretch(self) -> Stretch:
        """The calls since the window began but the latest, which begins the next one."""
        times_s = np.fromiter(self._calls.times_s, np.float64, len(self._calls.times_s))
        stretch = Stretch(times_s[::2], times_s[1:-2:2], float(times_s[-1]), self._raised_taken)
        if self._wall is not None:
            self._wall.add_inside(float((stretch.exits_s - stretch.entries_s[:-1]).sum()))
        return stretch

    def _end_window(self) -> None:
        if self.calls > self._calls_taken:
            self._take()
        self._close()

    def _close(self) -> None:
        assert self._started_s is not None
        stretch = self._stretch()
        reading = self._read(stretch, self._stood_still_since(self._started_s))
        if reading.waits_s is not None:
            self.spread.add(reading.waits_s, stretch.durations_s)
        window = StepWindow(
            phase=self._phase,
            time_s=time.time(),
            step=self.step,
            steps=stretch.calls * self.steps_per_execution,
            duration_s=stretch.duration_s,
            input_wait_s=reading.wait_s,
            examples=None if self._examples is None else self._examples.read(),
            buffered_batches=reading.buffered_batches,
        )
        self._begin()
        self._on_window(window)

    def _read(self, stretch: Stretch, stood_still: bool) -> Reading:
        """Works out what a window waited, from all that was taken in it."""
        taken, self._taken = self._taken, []
        reading = Reading(None)
        if self.meter is not None:
            reading = self.meter.read(taken, stretch)
        if stood_still:
            reading = Reading(None, unknown_because="the process stood still")
        if reading.unknown_because is not None:
            self.unknown_because = reading.unknown_because
        return reading

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        began = self._now()
        try:
            action(*args)
        except Exception as error:
            self.stop(f"{type(error).__name__}: {error}")
            give_up("Timing steps", error, "Step times are unknown from here on.")
        except BaseException:  # an interrupt, after which the window's parts may not fit together
            self._no_window()
            raise
        spent_s = self._now() - began
        self.overhead_s += spent_s
        if self.calls <= 2:
            self.startup_s += spent_s


def _is_end_of_data(error: BaseException) -> bool:
    import tensorflow as tf

    return isinstance(error, (StopIteration, tf.errors.OutOfRangeError))


@functools.cache
def _cost_of_a_call_s() -> float:
    """What noting one call costs on this machine.

    Timed once on a step function that does nothing: timing each call would cost more than the
    call.
    """
    clock = StepClock(
        phase="fit",
        steps_per_execution=1,
        first_step=0,
        on_window=lambda window: None,
        choose=lambda source: "",
    )

    def nothing(source: Any) -> None:
        return None

    timed = clock.wrap(nothing)
    timed(nothing)
    clock._calls.due_times = sys.maxsize
    calls = 1000
    durations = []
    for function in (nothing, timed):
        began = time.perf_counter()
        for _ in range(calls):
            function(nothing)
        durations.append(time.perf_counter() - began)
    return max(durations[1] - durations[0], 0.0) / calls
