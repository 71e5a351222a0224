"""Times a model's step function, in windows of steps."""

from __future__ import annotations

import functools
import math
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from keras_gpukit.errors import give_up
from keras_gpukit.input_wait.examples import ExampleCounter
from keras_gpukit.input_wait.meters import Meter, Reading, RequestMeter, choose_meter
from keras_gpukit.records.steps import Phase, StepWindow

# tf.data remembers the last 100 fetches: a reading at least every 64 misses none.
READ_EVERY_STEPS = 64
# A finer course than this nobody reads, and writing it would cost.
WINDOW_S = 1.0

StepFunction = Callable[[Any], Any]


class StepClock:
    """Notes when a step function is entered; that and a meter give step time and input wait.

    Windows leave out the first step over each pipeline, in which functions are traced and buffers
    filled, and the last, which has no next step to end it.

    Args:
        phase: What the step function belongs to.
        steps_per_execution: Steps in one call of the step function.
        first_step: Global step before the first call.
        on_window: Called with each finished window.
        examples: Counts examples; None where they are not counted.
        around_first_call: Entered around the first call.
        choose: Picks a meter for an iterator and the steps per execution, or says why none fits.
        accepts: Whether steps fed from a source are timed; others are only passed on.
        now: The clock, in seconds.
    """

    def __init__(
        self,
        *,
        phase: Phase,
        steps_per_execution: int,
        first_step: int,
        on_window: Callable[[StepWindow], None],
        examples: ExampleCounter | None = None,
        around_first_call: AbstractContextManager[Any] | None = None,
        choose: Callable[[Any, int], Meter | str] = choose_meter,
        accepts: Callable[[Any], bool] = lambda source: True,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.calls = 0
        self.overhead_s = 0.0
        """What choosing and reading meters cost on the training thread so far."""
        self.meter: Meter | None = None
        self.unknown_because: str | None = None
        self._phase = phase
        self._steps_per_execution = steps_per_execution
        self._first_step = first_step
        self._on_window = on_window
        self._examples = examples
        self._around_first_call = around_first_call or nullcontext()
        self._choose = choose
        self._accepts = accepts
        self._now = now
        self._calls_to_a_reading = max(1, READ_EVERY_STEPS // steps_per_execution)
        self._given_up = False
        # What steps are fed from, not kept alive. One that comes again keeps its meter: choosing
        # another may only be done before anything was fetched.
        self._source: Callable[[], Any] = lambda: None
        self._chosen: weakref.WeakKeyDictionary[Any, Meter | str] = weakref.WeakKeyDictionary()
        self._paused = False
        self._raised = False
        self._entry_s = 0.0
        self._due_calls = self._due_s = math.inf
        # The window under way.
        self._started_s: float | None = None
        self._started_calls = 0
        self._read_calls = 0
        self._wait_s: float | None = None
        self._buffered: float | None = None

    @property
    def steps(self) -> int:
        """Steps that ran."""
        return self.calls * self._steps_per_execution

    @property
    def total_overhead_s(self) -> float:
        """What timing cost on the training thread so far, noting entries included."""
        return self.overhead_s + self.calls * _cost_of_a_call_s()

    @property
    def step(self) -> int:
        """Global step."""
        return self._first_step + self.steps

    def wrap(self, step_function: StepFunction) -> StepFunction:
        """Returns the step function, which is given an iterator, with its entries noted.

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

    def pause(self) -> None:
        """Ends the window: what follows until the next step is no step's time."""
        if self._started_s is not None and self.calls > self._started_calls:
            self._guarded(self._read, self._entry_s)
            self._guarded(self._close, self._entry_s)
        self._paused = True
        self._no_window()

    def _call(self, step_function: StepFunction, source: Any, argument: Any) -> Any:
        entry_s = self._now()
        if self._paused or source is not self._source():
            return self._first_call(step_function, source, argument)
        try:
            outputs = step_function(argument)
        except BaseException:
            self._raised = True
            raise
        # Only now, since the call after the last batch raises and is no step.
        self._entry_s = entry_s
        self.calls += 1
        if self.calls >= self._due_calls or entry_s >= self._due_s:
            self._guarded(self._turn, entry_s)
        return outputs

    def _first_call(self, step_function: StepFunction, source: Any, argument: Any) -> Any:
        """The first step over a pipeline, or over one that was paused."""
        if not self._accepts(source):
            return step_function(argument)
        self._no_window()
        self._paused = self._raised = False
        if not self._given_up:
            self._guarded(self._take_up, source)
        around, self._around_first_call = self._around_first_call, nullcontext()
        with around:
            outputs = step_function(argument)
        self.calls += 1
        if not self._given_up:
            self._due_calls = self.calls + 1  # the window begins with the next call
        return outputs

    def _no_window(self) -> None:
        self._started_s = None
        self._due_calls = self._due_s = math.inf

    def _take_up(self, source: Any) -> None:
        self._source = weakref.ref(source)
        if source not in self._chosen:
            self._chosen[source] = self._choose(source, self._steps_per_execution)
        chosen = self._chosen[source]
        if isinstance(chosen, str):
            self.meter, self.unknown_because = None, chosen
        else:
            self.meter, self.unknown_because = chosen, None

    def _turn(self, entry_s: float) -> None:
        """Reads the meter; begins a window, or ends one that is long enough."""
        if self._started_s is None:
            if self.meter is not None:
                self.meter.start(entry_s)
            if self._examples is not None:
                self._examples.start()
            self._begin(entry_s)
            return
        self._read(entry_s)
        if entry_s - self._started_s >= WINDOW_S:
            self._close(entry_s)
        self._due_calls = self.calls + self._calls_to_a_reading

    def _begin(self, entry_s: float) -> None:
        self._started_s, self._started_calls = entry_s, self.calls
        self._read_calls = self.calls
        self._wait_s, self._buffered = 0.0, None
        self._due_calls, self._due_s = self.calls + self._calls_to_a_reading, entry_s + WINDOW_S

    def _read(self, entry_s: float) -> None:
        if self.meter is None:
            reading = Reading(None)
        else:
            steps = (self.calls - self._read_calls) * self._steps_per_execution
            reading = self.meter.read(entry_s, steps, raised=self._raised)
        self._read_calls = self.calls
        # Unknown for a part is unknown for the whole.
        if self._wait_s is None or reading.wait_s is None:
            self._wait_s = None
        else:
            self._wait_s += reading.wait_s
        self._buffered = reading.buffered_batches

    def _close(self, entry_s: float) -> None:
        if self._started_s is None:
            return
        window = StepWindow(
            phase=self._phase,
            time_s=time.time(),
            step=self.step,
            steps=(self.calls - self._started_calls) * self._steps_per_execution,
            duration_s=entry_s - self._started_s,
            input_wait_s=self._wait_s,
            examples=None if self._examples is None else self._examples.read(),
            buffered_batches=self._buffered,
        )
        self._begin(entry_s)
        self._on_window(window)

    def _guarded(self, action: Callable[[Any], None], argument: Any) -> None:
        began = self._now()
        try:
            action(argument)
        except Exception as error:
            self._given_up = True
            self._no_window()
            self.meter, self.unknown_because = None, f"{type(error).__name__}: {error}"
            give_up("Timing steps", error, "Step times are unknown from here on.")
        self.overhead_s += self._now() - began


@functools.cache
def _cost_of_a_call_s() -> float:
    """What noting one entry costs on this machine.

    Timed once on a step function that does nothing: timing each call would cost more than the
    call.
    """
    clock = StepClock(
        phase="fit",
        steps_per_execution=1,
        first_step=0,
        on_window=lambda window: None,
        choose=lambda source, steps: "",
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
