"""Times a model's step function, in windows of steps."""

from __future__ import annotations

import functools
import math
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

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

StepFunction = Callable[[Any], Any]


class _Pending(NamedTuple):
    """A stretch whose wait is still to be worked out.

    Attributes:
        taken: What the meter said at its end.
        entries_s: When its calls were entered, and the one after them.
        exits_s: When they returned, that one included.
        raised: Whether one more call raised since.
        stood_still: Whether the process stood still meanwhile.
    """

    taken: Any
    entries_s: list[float]
    exits_s: list[float]
    raised: bool
    stood_still: bool

    def stretch(self) -> Stretch:
        exits_s = np.array(self.exits_s)
        return Stretch(np.array(self.entries_s), exits_s[:-1], self.exits_s[-1], self.raised)


class StepClock:
    """Notes when a step function is entered and left; that and a meter give time and input wait.

    Windows leave out the first step over each pipeline, in which functions are traced and buffers
    filled, and the last, which has no next step to end it.

    Args:
        phase: What the step function belongs to.
        steps_per_execution: Steps in one call of the step function.
        first_step: Global step before the first call.
        on_window: Called with each finished window.
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
        examples: ExampleCounter | None = None,
        around_first_call: AbstractContextManager[Any] | None = None,
        accepts: Callable[[Any], bool] = lambda source: True,
        stood_still_since: Callable[[float], bool] = lambda moment_s: False,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.calls = 0
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
        self._steps_per_execution = steps_per_execution
        self._first_step = first_step
        self._on_window = on_window
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
        # What steps are fed from, not kept alive. One that comes again keeps its meter: choosing
        # another may only be done before anything was fetched.
        self._source: Callable[[], Any] = lambda: None
        self._chosen: weakref.WeakKeyDictionary[Any, Meter | str] = weakref.WeakKeyDictionary()
        self._is_new = True
        self._paused = False
        self._raised = False
        self._due_calls = self._due_s = math.inf
        # Calls since the last reading, the one it ended with included.
        self._entries_s: list[float] = []
        self._exits_s: list[float] = []
        # The window under way.
        self._started_s: float | None = None
        self._started_calls = 0
        self._pending: list[_Pending] = []

    @property
    def steps(self) -> int:
        """Steps that ran."""
        return self.calls * self._steps_per_execution

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

        @functools.wraps(step_function)
        def timed(iterator: Any) -> Any:
            return self._call(step_function, iterator, iterator)

        return timed

    def wrap_batches(self, step_function: StepFunction, meter: RequestMeter) -> StepFunction:
        """The same for a step function that is given batches fetched beforehand."""

        @functools.wraps(step_function)
        def timed(batches: Any) -> Any:
            meter.fetched()
            return self._call(step_function, meter, batches)

        return timed

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
        self._source = lambda: None
        self._no_window()
        # What was measured before stays, with the name of its meter.
        self.unknown_because = because

    def leave(self) -> None:
        """The phase is over, but others go on calling: that is passed on, and not counted."""
        self._accepts = lambda source: False
        self._source = lambda: None
        self._no_window()

    def pause(self) -> None:
        """Ends the window: what follows until the next step is no step's time."""
        if self._started_s is not None and self.calls > self._started_calls:
            self._guarded(self._end_window)
        if self._exits_s and self._wall is not None:
            self._wall.add_inside(self._exits_s[-1] - self._entries_s[-1])
            if not self._raised:
                self._wall.end_steps(self._exits_s[-1])
        self._paused = True
        self._no_window()

    def _call(self, step_function: StepFunction, source: Any, argument: Any) -> Any:
        entry_s = self._now()
        if self._paused or source is not self._source():
            return self._first_call(step_function, source, argument, entry_s)
        try:
            outputs = step_function(argument)
        except BaseException:
            self._raise(entry_s)
            raise
        # Only now, since the call after the last batch raises and is no step.
        self._entries_s.append(entry_s)
        self._exits_s.append(self._now())
        self.calls += 1
        if self.calls >= self._due_calls or entry_s >= self._due_s:
            self._guarded(self._turn)
        return outputs

    def _untimed_call(self, step_function: StepFunction, source: Any, argument: Any) -> Any:
        outputs = step_function(argument)
        self.calls += self._accepts(source)
        return outputs

    def _first_call(
        self, step_function: StepFunction, source: Any, argument: Any, entry_s: float
    ) -> Any:
        """The first step over a pipeline, or over one that was paused."""
        if self._given_up or not self._accepts(source):
            return self._untimed_call(step_function, source, argument)
        self._no_window()
        self._paused = self._raised = False
        self.pipelines += 1
        self._guarded(self._take_up, source)
        if self._wall is not None:
            self._wall.turn("steps" if self.calls else "first step", entry_s)
        around, self._around_first_call = self._around_first_call, nullcontext()
        with around:
            outputs = step_function(argument)
        exit_s = self._now()
        if self._wall is not None and not self.calls:
            self._wall.turn("steps", exit_s)
            self._wall.add_inside(entry_s - exit_s)  # it will be counted with the others
        self._entries_s.append(entry_s)
        self._exits_s.append(exit_s)
        self.calls += 1
        self._due_calls = self.calls + 1  # the window begins with the next call
        return outputs

    def _raise(self, entry_s: float) -> None:
        self._raised = True
        if self._wall is not None:
            # Mostly the end of the data, which was looked for.
            self._wall.turn("epoch start", entry_s)
            self._wall.turn("other")

    def _no_window(self) -> None:
        self._started_s = None
        self._due_calls = self._due_s = math.inf
        self._entries_s, self._exits_s = [], []
        self._pending = []

    def _take_up(self, source: Any) -> None:
        self._source = weakref.ref(source)
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
        entry_s = self._entries_s[-1]
        if self._started_s is None:
            first = max(1, FIRST_READING_AFTER_STEPS // self._steps_per_execution)
            self._calls_to_a_reading = min(first, self._most_calls_to_a_reading)
            self._start(self._end_stretch().stretch())
            self._begin(entry_s)
            return
        self._pending.append(self._end_stretch())
        if entry_s - self._started_s >= WINDOW_S:
            self._close(entry_s)
        twice = 2 * self._calls_to_a_reading
        self._calls_to_a_reading = min(twice, self._most_calls_to_a_reading)
        self._due_calls = self.calls + self._calls_to_a_reading

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

    def _begin(self, entry_s: float) -> None:
        self._started_s, self._started_calls = entry_s, self.calls
        self._due_calls, self._due_s = self.calls + self._calls_to_a_reading, entry_s + WINDOW_S

    def _end_stretch(self) -> _Pending:
        """The calls since the last reading, but the latest, which begins the next stretch."""
        entries_s, exits_s = self._entries_s, self._exits_s
        self._entries_s, self._exits_s = entries_s[-1:], exits_s[-1:]
        if self._wall is not None:
            self._wall.add_inside(sum(exits_s) - sum(entries_s) + entries_s[-1] - exits_s[-1])
        return _Pending(
            None if self.meter is None or self._started_s is None else self.meter.take(),
            entries_s,
            exits_s,
            self._raised,
            self._stood_still_since(entries_s[0]),
        )

    def _end_window(self) -> None:
        entry_s = self._entries_s[-1]
        if len(self._exits_s) > 1:  # else the latest call ended a reading
            self._pending.append(self._end_stretch())
        self._close(entry_s)

    def _close(self, entry_s: float) -> None:
        assert self._started_s is not None
        pending, self._pending = self._pending, []
        stretches = [each.stretch() for each in pending]
        readings = list(map(self._read, pending, stretches))
        known = [
            (reading.waits_s, stretch.durations_s)
            for reading, stretch in zip(readings, stretches, strict=True)
            if reading.waits_s is not None
        ]
        if known:
            self.spread.add(*map(np.concatenate, zip(*known, strict=True)))
        waits_s = [reading.wait_s for reading in readings if reading.wait_s is not None]
        window = StepWindow(
            phase=self._phase,
            time_s=time.time(),
            step=self.step,
            steps=(self.calls - self._started_calls) * self._steps_per_execution,
            duration_s=entry_s - self._started_s,
            # Unknown for a part is unknown for the whole.
            input_wait_s=sum(waits_s) if len(waits_s) == len(readings) else None,
            examples=None if self._examples is None else self._examples.read(),
            buffered_batches=readings[-1].buffered_batches if readings else None,
        )
        self._begin(entry_s)
        self._on_window(window)

    def _read(self, pending: _Pending, stretch: Stretch) -> Reading:
        """Works out what a stretch waited: all those of a window at once, when it is over."""
        reading = Reading(None)
        if self.meter is not None:
            reading = self.meter.read(pending.taken, stretch)
        if pending.stood_still:
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
        spent_s = self._now() - began
        self.overhead_s += spent_s
        if self.calls <= 2:
            self.startup_s += spent_s


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
    clock._due_calls = math.inf
    calls = 1000
    durations = []
    for function in (nothing, timed):
        began = time.perf_counter()
        for _ in range(calls):
            function(nothing)
        durations.append(time.perf_counter() - began)
    return max(durations[1] - durations[0], 0.0) / calls
