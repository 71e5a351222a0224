"""Times the calls of a model's step function; this code runs at every step."""

from __future__ import annotations

import atexit
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from keras_gpukit.errors import failure, give_up
from keras_gpukit.frameworks.tf_datasets import host_iterator
from keras_gpukit.input.wait.calls import NOTHING, CallTimes, StepFunction, is_end_of_data
from keras_gpukit.input.wait.meters import RequestMeter
from keras_gpukit.input.wait.step_windows import StepWindows
from keras_gpukit.input.wait.wall_time import WallTime

PROMPT_S = 1e-4
"""Python's switch interval during a reading. Our choice: fifty times shorter than its default."""
_usual_s = sys.getswitchinterval()


class OwnCost:
    """Seconds of our own work on the training thread."""

    def __init__(self) -> None:
        self.once_s = self.recurring_s = 0.0

    def add(self, spent_s: float, *, once: bool) -> None:
        """Adds seconds of work."""
        if once:
            self.once_s += spent_s
        else:
            self.recurring_s += spent_s


class StepClock:
    """Appends the entry and exit times of each call to one buffer, of which windows are made.

    Windows exclude the first call of an epoch or after a pause, which may trace and fill buffers,
    and the last call, since no next call ends it. Epochs of one or two calls differ: if
    the meter knows the wait of each call, only the first call over a new pipeline is excluded.

    There is no `wall` for a validation inside `fit`. `on_error` is called with each exception of a
    step, but not at the end of the data. Steps from a source that is not accepted are passed on.
    """

    def __init__(
        self,
        calls: CallTimes,
        windows: StepWindows,
        *,
        wall: WallTime | None = None,
        on_error: Callable[[BaseException], None] | None = None,
        around_first_call: AbstractContextManager[Any] | None = None,
        accepts: Callable[[Any], bool] = lambda source: True,
        cost: OwnCost | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.pipelines = 0
        """Number of times that steps started, over another pipeline or after a pause."""
        self._calls = calls
        self._windows = windows
        self._wall = wall
        self._on_error = on_error
        self._around_first_call = around_first_call or nullcontext()
        self._accepts = accepts
        self._cost = cost or OwnCost()
        self._now = now
        self._given_up = False
        self._will_trace = True
        self._past = PastIterator()

    @property
    def saw_every_step(self) -> bool:
        """Whether steps ran and all of them were timed."""
        return self._calls.count > 0 and not self._given_up

    def wrap(
        self,
        step_function: StepFunction,
        not_accepted: StepFunction | None = None,
        *,
        traces: bool = False,
    ) -> StepFunction:
        """Wraps a step function, so that the times of its calls are recorded.

        The wrapper passes on the iterator, the outputs and all exceptions. `not_accepted` is called
        for steps from other sources. The next call `traces` a new function.
        """
        self._will_trace = self._will_trace or traces
        run_other = not_accepted or step_function
        # Every step runs through this function, and the previous step leaves cold caches: each
        # additional function or object costs a large part of a microsecond.
        now, calls, turn = self._now, self._calls, self._windows.switch

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

    def stop(self, because: str) -> None:
        """Stops timing; later calls are only passed on and counted."""
        self._given_up = True
        self._calls.source = NOTHING
        self._windows.stop(because)

    def leave(self) -> None:
        """Ends the phase; if other code still calls the wrapper, its calls are not counted."""
        self._accepts = lambda source: False
        self._calls.source = NOTHING
        self._windows.drop()

    def pause(self, batch_ended_s: float = 0.0) -> None:
        """Ends the current window; the time until the next step belongs to no step.

        The callbacks returned from their hook for the last batch at `batch_ended_s`; 0 if unknown.
        """
        times_s = self._calls.times_s
        if len(times_s) % 2:
            times_s.pop()  # an interrupt came between the two times of a call
        if times_s:
            self._guarded(self._windows.end)
        if self._calls.times_s and self._wall is not None and not self._windows.raised:
            self._wall.end_steps(self._calls.times_s[-1], batch_ended_s)
        self._calls.source = NOTHING
        self._windows.drop()

    def end(self) -> None:
        """Makes the windows that have ended but were deferred, and lets go of the last iterator."""
        self._guarded(self._windows.evaluate)
        self._guarded(self._past.free)

    def release(self) -> None:
        """Forgets the data and the listeners of a run that is over."""
        self.leave()
        self._guarded(self._past.free)
        self._on_error = None
        self._windows.release()

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
        self._windows.drop()
        self.pipelines += 1
        self._guarded(self._windows.follow, source)
        is_first_of_run = self._calls.count == 0
        if self._wall is not None:
            self._wall.switch("first step" if is_first_of_run else "steps", entry_s)
        around, self._around_first_call = self._around_first_call, nullcontext()
        try:
            with around:
                outputs = step_function(source)
        except BaseException as error:
            self._report(error)
            raise
        exit_s = self._now()
        traced, self._will_trace = self._will_trace, False
        if self._wall is not None and is_first_of_run:
            self._wall.switch("steps", exit_s)
            self._wall.set_apart(exit_s - entry_s)
        elif self._wall is not None and traced:
            self._wall.add_tracing(exit_s - entry_s)
        self._calls.times_s = [entry_s, exit_s]
        self._guarded(self._windows.note_first_call, traced)
        if not self._given_up:
            # Not before: if the first call raises, the next one is a first call too.
            self._calls.source = source
            self._guarded(self._past.follow, source)
            self._calls.due_times = 4  # a window starts with the next call
        return outputs

    def _raise(self, entry_s: float, error: BaseException) -> None:
        self._windows.note_raised()
        self._report(error)
        if self._wall is not None:
            # Usually the end of the data. Finding it counts as epoch start.
            self._wall.switch("epoch start", entry_s)
            self._wall.switch("other")

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
            self._windows.drop()
            raise
        self._cost.add(time.thread_time() - began, once=self._calls.count <= 2)


@contextmanager
def prompt_gil() -> Iterator[None]:
    """Lets threads switch promptly until the context is left.

    A thread that wants the GIL (global interpreter lock) from a thread that runs Python code gets
    it after `sys.getswitchinterval()`, 5 ms by default. A reading calls TensorFlow, which releases
    the GIL each time: with four threads of a `PyDataset` on a busy machine, the dozen readings at
    the start of an epoch waited for 160 ms, and with a shorter interval for 20 ms.
    """
    global _usual_s
    interval_s = sys.getswitchinterval()
    if interval_s <= PROMPT_S:  # the script's own choice, or a reading on another thread
        yield
        return
    _usual_s = interval_s
    try:
        sys.setswitchinterval(PROMPT_S)
        yield
    finally:
        sys.setswitchinterval(_usual_s)


_UNTIL_ENDED_S = 1.0
"""Longest wait for a call to let go of its last iterator; our choice. The call ends meanwhile."""
_LOOK_EVERY_S = 0.01
_OURS = 2  # references to an object in a list, seen by `sys.getrefcount`
_NAME = "frees an iterator"
_AT_EXIT_S = 1.0
"""How long the end of the process waits for iterators that are being freed; our choice.

Most take milliseconds. But TensorFlow may wake an iterator's tuning thread before it has marked it
as cancelled: that sleeps on, for up to as long as the iterator lived, and what frees it waits.
"""


class PastIterator:
    """Keeps the iterator of the current epoch, so that training does not wait for its end."""

    def __init__(self) -> None:
        self._held: list[Any] = []

    def follow(self, iterator: Any) -> None:
        """Keeps an iterator from here on in place of the one before."""
        if not self._held or iterator is not self._held[0]:
            self.free()
            if host_iterator(iterator) is not None:
                self._held = [iterator]

    def free(self) -> None:
        """Lets go of the iterator once Keras has done so."""
        held, self._held = self._held, []
        if held:
            threading.Thread(target=_free, args=(held,), name=_NAME, daemon=True).start()


def _free(held: list[Any]) -> None:
    until_s = time.monotonic() + _UNTIL_ENDED_S
    while sys.getrefcount(held[0]) > _OURS and time.monotonic() < until_s:
        time.sleep(_LOOK_EVERY_S)
    held.clear()


@atexit.register
def _wait_at_exit() -> None:
    """Lets iterators be freed while there is an interpreter, but does not wait for sleepers."""
    until_s = time.monotonic() + _AT_EXIT_S
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join(max(until_s - time.monotonic(), 0.0))
