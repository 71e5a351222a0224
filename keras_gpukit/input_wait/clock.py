"""Times the calls of a model's step function: what runs at every step."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from keras_gpukit.errors import give_up
from keras_gpukit.input_wait.calls import NOTHING, Calls, is_end_of_data
from keras_gpukit.input_wait.device_work import DeviceWork
from keras_gpukit.input_wait.examples import ExampleCounter
from keras_gpukit.input_wait.meters import Meter
from keras_gpukit.input_wait.request_meter import RequestMeter
from keras_gpukit.input_wait.self_cost import StepFunction, cost_of_a_call_s
from keras_gpukit.input_wait.step_windows import StepWindows
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.input_wait.wait_reader import WaitReader
from keras_gpukit.input_wait.wall_time import WallTime
from keras_gpukit.records.steps import Phase, StepWindow


class StepClock:
    """Records when a step function is entered and left; with a meter, that gives the input wait.

    Windows leave out the first step over each pipeline, in which functions are traced and buffers
    filled, and the last, which has no next step to end it.

    Args:
        phase: What the step function belongs to.
        steps_per_execution: Steps in one call of the step function.
        first_step: Global step before the first call.
        on_window: Called with each finished window.
        on_error: Called with an exception by which a step fails; the end of the data is none.
        choose: Picks a meter for an iterator, or says why none fits.
        wall: Where the call's wall time goes.
        examples: Counts examples; None where they are not counted.
        around_first_call: Entered around the first call.
        accepts: Whether steps fed from a source are timed; others are only passed on.
        stood_still_since: Whether the process stood still since a moment of the clock; then it is
            unknown what waited for what.
        device: What the device hides of the wait; None where it works within the calls.
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
        device: DeviceWork | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.pipelines = 0
        """How often steps started, over another pipeline or after a pause."""
        self.overhead_s = 0.0
        """What choosing and reading meters cost on the training thread so far."""
        self.startup_s = 0.0
        """What of that came with the first pipeline, once."""
        self.steps_per_execution = steps_per_execution
        self._calls = Calls()
        self.waits = WaitReader(choose, stood_still_since, device)
        self.windows = StepWindows(
            self._calls,
            phase=phase,
            steps_per_execution=steps_per_execution,
            first_step=first_step,
            on_window=on_window,
            reader=self.waits,
            wall=wall,
            examples=examples,
        )
        self._on_error = on_error
        self._wall = wall
        self._around_first_call = around_first_call or nullcontext()
        self._accepts = accepts
        self._now = now
        self._given_up = False
        self._raised = False
        self.will_trace = False
        """Whether the step function was made again, so that its next call traces it."""

    @property
    def source(self) -> Any:
        """What steps are fed from; `NOTHING` between epochs."""
        return self._calls.source

    @property
    def calls(self) -> int:
        """Calls of the step function."""
        return self._calls.count

    @property
    def steps(self) -> int:
        """Steps that ran."""
        return self.calls * self.steps_per_execution

    @property
    def recurring_s(self) -> float:
        """What timing costs on the training thread again and again, so far."""
        return self.overhead_s - self.startup_s + self.calls * cost_of_a_call_s(_timed_alone)

    @property
    def step(self) -> int:
        """Global step."""
        return self.windows.step

    @property
    def totals(self) -> StepTotals:
        """The windows so far, added up."""
        return self.windows.totals

    def wrap(
        self, step_function: StepFunction, not_accepted: StepFunction | None = None
    ) -> StepFunction:
        """Returns the step function, which is given an iterator, with its calls noted.

        It is called the same way with the same iterator, and what it raises passes through.

        Args:
            step_function: What runs a step.
            not_accepted: What runs steps from sources that are not accepted, if something else.
        """
        run_other = not_accepted or step_function
        # Every step runs through this, on caches that the step before has emptied: each further
        # function, and each further object, costs a large part of a microsecond.
        now, calls, turn = self._now, self._calls, self.windows.turn

        @functools.wraps(step_function)
        def timed(iterator: Any) -> Any:
            entry_s = now()
            if iterator is not calls.source:
                if self._accepts(iterator):
                    return self._first_call(step_function, iterator, entry_s)
                return run_other(iterator)
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
                self._guarded(turn)
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
        self._calls.source = NOTHING
        self.windows.drop()
        # What was measured before stays, with the name of its meter.
        self.waits.unknown_because = because

    def leave(self) -> None:
        """The phase is over, but others go on calling: that is passed on, and not counted."""
        self._accepts = lambda source: False
        self._calls.source = NOTHING
        self.windows.drop()

    def pause(self) -> None:
        """Ends the window: what follows until the next step is no step's time."""
        times_s = self._calls.times_s
        if len(times_s) % 2:
            times_s.pop()  # an interrupt came between the two of a call
        if times_s:
            self._guarded(self.windows.end)
        if self._calls.times_s and self._wall is not None and not self._raised:
            self._wall.end_steps(self._calls.times_s[-1])
        self._calls.source = NOTHING
        self.windows.drop()

    def work_out(self) -> None:
        """Makes the windows that have ended and were put off."""
        self._guarded(self.windows.work_out)

    def _first_call(self, step_function: StepFunction, source: Any, entry_s: float) -> Any:
        """The first step over a pipeline, or over one that was paused."""
        if self._given_up:
            outputs = step_function(source)
            self._calls.before += 1
            return outputs
        self.windows.drop()
        self._raised = False
        self.pipelines += 1
        self._guarded(self.windows.follow, source)
        is_first_of_run = self.calls == 0
        if self._wall is not None:
            self._wall.turn("first step" if is_first_of_run else "steps", entry_s)
        around, self._around_first_call = self._around_first_call, nullcontext()
        try:
            with around:
                outputs = step_function(source)
        except BaseException as error:
            if self._on_error is not None and not is_end_of_data(error):
                self._guarded(self._on_error, error)
            raise
        exit_s = self._now()
        self.windows.has_traced = is_first_of_run or self.will_trace
        if self._wall is not None and self.will_trace and not is_first_of_run:
            self._wall.add_tracing(exit_s - entry_s)
        self.will_trace = False
        if self._wall is not None and is_first_of_run:
            self._wall.turn("steps", exit_s)
            self._wall.add_inside(entry_s - exit_s)  # it will be counted with the others
        self._calls.times_s = [entry_s, exit_s]
        self._guarded(self.windows.note_first_call)
        if not self._given_up:
            # Not before: a first call that raises is followed by another first one.
            self._calls.source = source
            self._calls.due_times = 4  # the window begins with the next call
        return outputs

    def release(self) -> None:
        """Forgets what steps were fed from, and whom to tell of them."""
        self._calls.source = NOTHING
        self._on_error = None
        self._accepts = lambda source: False
        self.windows.release()

    def _raise(self, entry_s: float, error: BaseException) -> None:
        self._raised = True
        self.windows.note_raised()
        if self._on_error is not None and not is_end_of_data(error):
            self._guarded(self._on_error, error)
        if self._wall is not None:
            # Mostly the end of the data, which was looked for.
            self._wall.turn("epoch start", entry_s)
            self._wall.turn("other")

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        began = self._now()
        try:
            action(*args)
        except Exception as error:
            self.stop(f"{type(error).__name__}: {error}")
            give_up("Timing steps", error, "Step times are unknown from here on.")
        except BaseException:  # an interrupt, after which the window's parts may not fit together
            self.windows.drop()
            raise
        spent_s = self._now() - began
        self.overhead_s += spent_s
        if self.calls <= 2:
            self.startup_s += spent_s


def _timed_alone(step_function: StepFunction) -> StepFunction:
    """Times a step function with no meter and no windows, as most calls are."""
    clock = StepClock(
        phase="fit",
        steps_per_execution=1,
        first_step=0,
        on_window=lambda window: None,
        choose=lambda source: "",
    )
    timed = clock.wrap(step_function)

    timed(step_function)  # the source that it is given from then on
    clock._calls.due_times = sys.maxsize
    return timed
