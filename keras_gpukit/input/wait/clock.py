"""Times the calls of a model's step function; this code runs at every step."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from keras_gpukit.errors import failure, give_up
from keras_gpukit.input.wait.calls import NOTHING, Calls, is_end_of_data
from keras_gpukit.input.wait.device_work import DeviceWork
from keras_gpukit.input.wait.examples import ExampleCounter
from keras_gpukit.input.wait.meters import Meter
from keras_gpukit.input.wait.prompt_gil import prompt_gil
from keras_gpukit.input.wait.request_meter import RequestMeter
from keras_gpukit.input.wait.self_cost import StepFunction, cost_of_a_call_s
from keras_gpukit.input.wait.step_windows import StepWindows
from keras_gpukit.input.wait.totals import StepTotals
from keras_gpukit.input.wait.wait_reader import WaitReader
from keras_gpukit.input.wait.wall_time import WallTime
from keras_gpukit.records.steps import Phase, StepWindow


class StepClock:
    """Records the entry and exit times of a step function, from which meters get the input wait.

    Windows exclude the first call of an epoch or after a pause, which may trace and fill buffers,
    and the last call, since no next call ends it. Epochs of one or two calls differ: if
    the meter knows the wait of each call, only the first call over a new pipeline is excluded.

    Args:
        phase: "fit", "evaluate" or "predict".
        steps_per_execution: Number of steps in one call of the step function.
        first_step: Global step before the first call.
        on_window: Called with each finished window.
        on_error: Called with each exception of a step, except for the end of the data.
        choose: Returns a meter for an iterator, or the reason why none fits.
        wall: Accounts for the wall time of the whole run; None for a validation inside `fit`.
        examples: Counts examples; None if they are not counted.
        around_first_call: Context manager around the first call.
        accepts: Returns whether steps from a source are timed; other steps are only passed on.
        stood_still_since: Returns whether the process was suspended since a time of the clock. The
            wait since then is unknown.
        device: Subtracts the wait that the device hides; None if it computes within the calls.
        now: Clock that returns seconds.
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
        """Number of times that steps started, over another pipeline or after a pause."""
        self.overhead_s = 0.0
        """Seconds of processor time of meters and windows on the training thread so far."""
        self.startup_s = 0.0
        """Part of `overhead_s` up to the second call, which occurs once per run."""
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
            now=now,
        )
        self._on_error = on_error
        self._wall = wall
        self._around_first_call = around_first_call or nullcontext()
        self._accepts = accepts
        self._now = now
        self._given_up = False
        self._raised = False
        self.will_trace = False
        """Whether the step function is a new one, which its next call traces."""

    @property
    def calls(self) -> int:
        """Number of calls of the step function."""
        return self._calls.count

    @property
    def steps(self) -> int:
        """Number of steps that ran, if data never ended within a call."""
        return self.calls * self.steps_per_execution

    @property
    def recurring_s(self) -> float:
        """Recurring overhead of timing on the training thread so far, in seconds."""
        return self.overhead_s - self.startup_s + self.calls * cost_of_a_call_s(_timed_alone)

    @property
    def step(self) -> int:
        """Global step."""
        return self.windows.step

    @property
    def totals(self) -> StepTotals:
        """Sums over all windows so far."""
        return self.windows.totals

    def wrap(
        self, step_function: StepFunction, not_accepted: StepFunction | None = None
    ) -> StepFunction:
        """Wraps a step function, so that the times of its calls are recorded.

        The wrapper passes on the iterator, the outputs and all exceptions.

        Args:
            step_function: Function that takes an iterator and runs a step.
            not_accepted: Function for steps from other sources; `step_function` by default.
        """
        run_other = not_accepted or step_function
        # Every step runs through this function, and the previous step leaves cold caches: each
        # additional function or object costs a large part of a microsecond.
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
            # Not before, since the call after the last batch raises and is not a step.
            times_s = calls.times_s
            times_s.append(entry_s)
            times_s.append(now())
            if len(times_s) >= calls.due_times or entry_s >= calls.due_s:
                self._guarded(turn)
            return outputs

        return timed

    def wrap_batches(self, step_function: StepFunction, meter: RequestMeter) -> StepFunction:
        """Wraps a step function that takes batches, which `predict` fetches before the call."""
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
        """Stops timing; later calls are only passed on and counted.

        Args:
            because: Reason why the wait is unknown from now on.
        """
        self._given_up = True
        self._calls.source = NOTHING
        self.windows.drop()
        # Earlier measurements stay, with the name of their meter.
        self.waits.unknown_because = because

    def leave(self) -> None:
        """Ends the phase; if other code still calls the wrapper, its calls are not counted."""
        self._accepts = lambda source: False
        self._calls.source = NOTHING
        self.windows.drop()

    def pause(self) -> None:
        """Ends the current window; the time until the next step belongs to no step."""
        times_s = self._calls.times_s
        if len(times_s) % 2:
            times_s.pop()  # an interrupt came between the two times of a call
        if times_s:
            self._guarded(self.windows.end)
        if self._calls.times_s and self._wall is not None and not self._raised:
            self._wall.end_steps(self._calls.times_s[-1])
        self._calls.source = NOTHING
        self.windows.drop()

    def work_out(self) -> None:
        """Makes the windows that have ended but were deferred."""
        self._guarded(self.windows.work_out)

    def _first_call(self, step_function: StepFunction, source: Any, entry_s: float) -> Any:
        """Runs the first call of an epoch or after a pause."""
        if self._given_up:
            try:
                outputs = step_function(source)
            except BaseException as error:
                self._report(error)
                raise
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
            self._report(error)
            raise
        exit_s = self._now()
        self.windows.has_traced = is_first_of_run or self.will_trace
        if self._wall is not None and self.will_trace and not is_first_of_run:
            self._wall.add_tracing(exit_s - entry_s)
        self.will_trace = False
        if self._wall is not None and is_first_of_run:
            self._wall.turn("steps", exit_s)
            self._wall.add_inside(entry_s - exit_s)  # it is added later, with all calls
        self._calls.times_s = [entry_s, exit_s]
        self._guarded(self.windows.note_first_call)
        if not self._given_up:
            # Not before: if the first call raises, the next one is a first call too.
            self._calls.source = source
            self._calls.due_times = 4  # a window starts with the next call
        return outputs

    def release(self) -> None:
        """Forgets the data and the listeners of a run that is over."""
        self._calls.source = NOTHING
        self._on_error = None
        self._accepts = lambda source: False
        self.windows.release()

    def _raise(self, entry_s: float, error: BaseException) -> None:
        self._raised = True
        self.windows.note_raised()
        self._report(error)
        if self._wall is not None:
            # Usually the end of the data. Finding it counts as epoch start.
            self._wall.turn("epoch start", entry_s)
            self._wall.turn("other")

    def _report(self, error: BaseException) -> None:
        """Passes on an error of a step; the end of the data is none."""
        if self._on_error is not None and not is_end_of_data(error):
            self._guarded(self._on_error, error)

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        began = time.thread_time()  # waiting for the GIL meanwhile is not our work
        try:
            with prompt_gil():
                action(*args)
        except Exception as error:
            self.stop(failure("timing steps", error))
            give_up("Timing steps", error, "Step times are unknown from here on.")
        except BaseException:  # an interrupt may leave the window inconsistent
            self.windows.drop()
            raise
        spent_s = time.thread_time() - began
        self.overhead_s += spent_s
        if self.calls <= 2:
            self.startup_s += spent_s


def _timed_alone(step_function: StepFunction) -> StepFunction:
    """Wraps a step function without a meter or windows, since most calls need neither."""
    clock = StepClock(
        phase="fit",
        steps_per_execution=1,
        first_step=0,
        on_window=lambda window: None,
        choose=lambda source: "",
    )
    timed = clock.wrap(step_function)

    timed(step_function)  # later calls have the same source
    clock._calls.due_times = sys.maxsize
    return timed
