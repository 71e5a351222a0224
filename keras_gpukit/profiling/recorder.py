"""Captures profiles of training steps on request, within limits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from keras_gpukit.errors import Guard, failure, logger
from keras_gpukit.frameworks.tf_runtime import profiler_state
from keras_gpukit.profiling.capture import MARK, Capture, give_way
from keras_gpukit.profiling.capture_settings import (
    CaptureSettings,
    Limits,
    next_scheduled,
)
from keras_gpukit.records.profile import CaptureRecord, MissedCapture, ProfilerRecord, Trigger

# A capture by itself is of whole executions, of which the profile does not count the first and the
# last one. More steps take seconds to gather. Our choice.
LEAST_AUTOMATIC_EXECUTIONS = 4
MOST_AUTOMATIC_STEPS = 64
# Maximum number of missed captures that are recorded. A run may miss one at every step.
MOST_MISSED = 20
RUNNING_ELSEWHERE = "another profiler is recording, and TensorFlow records one profile at a time"

StepFunction = Callable[[Any], Any]
# Attribute of a step function with the recorder that marks its steps. `functools.wraps` copies the
# attribute to functions that wrap the step function.
MARKED_BY = "gpukit_marked_by"


class Recorder:
    """Marks the steps of a run, and captures a few of them on request.

    The run begins after the global step `first_step`; `emit` gets each capture's record, usually on
    another thread. `on_counted` is called within the calls that begin and end the part of a capture
    of steady steps that its profile counts.
    """

    def __init__(
        self,
        log_dir: Path,
        settings: CaptureSettings,
        *,
        first_step: int,
        steps_per_execution: int,
        epoch_steps: int | None,
        global_step: Callable[[], int],
        emit: Callable[[CaptureRecord], None],
        on_counted: Callable[[], None],
    ) -> None:
        self._log_dir = log_dir
        self._limits = Limits(log_dir, settings)
        self._next_scheduled = functools.partial(
            next_scheduled, settings.at_steps or (), settings.every_steps
        )
        self._first_step = first_step
        self._steps_per_execution = steps_per_execution
        self._epoch_steps = epoch_steps
        self._global_step = global_step
        calls = max(1, settings.steps // steps_per_execution)
        if settings.automatic:
            calls = min(settings.steps, MOST_AUTOMATIC_STEPS // steps_per_execution)
        self._usual_calls = self._calls_of_next = self._calls_of_a_capture = calls
        self._is_automatic = settings.automatic
        self._emit = emit
        self._on_counted = on_counted
        # The global step as last updated, which happens at each epoch's end, and the calls since.
        self._known_step = first_step
        self._calls = 0
        self._scheduled_step = self._next_scheduled(0)
        self._wanted: tuple[Trigger, str] | None = None
        self._capture: Capture | None = None
        self._captured_calls = 0
        self._ended: list[Capture] = []
        self._records: list[CaptureRecord] = []
        self._missed: list[MissedCapture] = []
        self._logged: set[str] = set()
        self._guard = Guard("Capturing profiles", "No more are captured in this run.")
        self._closed = False
        self._giving_way: Callable[[], None] | None = None  # ends it

    @property
    def is_capturing(self) -> bool:
        """Whether a capture is being recorded or written."""
        return self._capture is not None or any(capture.is_under_way for capture in self._ended)

    @property
    def profiler_record(self) -> ProfilerRecord:
        """Record of the captures that were taken or missed so far."""
        return ProfilerRecord(tuple(self._records), tuple(self._missed))

    def want(self, trigger: Trigger, reason: str, calls: int | None = None) -> None:
        """Requests a capture from the next execution on, unless one is pending or running."""
        if self._wanted is None and self._capture is None:
            self._wanted, self._calls_of_next = (trigger, reason), calls or self._usual_calls

    def wrap(self, step_function: StepFunction) -> StepFunction:
        """Returns a step function that marks its steps, and captures them when a capture is due.

        It is called like the original, and exceptions pass through. A step is marked only once: if
        an inner recorder marks it, this one does not.
        """
        import tensorflow as tf

        is_profiled = profiler_state()
        mark = functools.partial(tf.profiler.experimental.Trace, MARK, _r=1)
        steps = self._steps_per_execution
        before_due = self._first_step - steps
        within: Recorder | None = getattr(step_function, MARKED_BY, None)

        @functools.wraps(step_function)
        def marked(batches: Any) -> Any:
            # Every step runs this code, so work that is rarely due is not even called.
            if self._closed:
                return step_function(batches)
            if (
                self._wanted is not None
                or self._capture is not None
                or self._known_step + self._calls * steps >= self._scheduled_step + before_due
            ):
                self._guarded(self._before_call)
            if is_profiled() and (within is None or within._closed):
                with mark(step_num=self._step + 1):
                    outputs = step_function(batches)
            else:
                outputs = step_function(batches)
            self._calls += 1
            if self._capture is not None:
                self._captured_calls += 1
            return outputs

        setattr(marked, MARKED_BY, self)
        return marked

    def pause(self, because: str) -> None:
        """Ends a running capture at a pause of the steps, such as an epoch's end."""
        if self._steps_per_execution > 1:
            self._guarded(self._ask_for_step)
        self.interrupt(because)

    def interrupt(self, because: str) -> None:
        """Ends a running capture."""
        if self._capture is not None:
            self._guarded(self._end, because)

    def close(self) -> None:
        """Ends a running capture, and waits up to 30 s for each capture to be written."""
        self.interrupt("the run ended")
        self._closed = True
        if self._wanted is not None:
            self._miss(*self._wanted, "the run ended")
        for capture in self._ended:
            capture.wait()
        self._give_way_no_more()

    @property
    def _step(self) -> int:
        return self._known_step + self._calls * self._steps_per_execution

    @property
    def _steps_of_call(self) -> int:
        """Steps of the next call; each call counts as full if the epoch's length is unknown."""
        left = (self._epoch_steps or inf) - self._calls * self._steps_per_execution
        return int(min(self._steps_per_execution, max(1, left)))

    def _ask_for_step(self) -> None:
        """Updates the global step, since an epoch's last execution may have run fewer steps."""
        self._known_step, self._calls = self._global_step(), 0

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        with self._guard:
            action(*args)

    def _before_call(self) -> None:
        if self._guard.failed_because is not None:
            return
        # A capture is ended only now: by this time Keras has fetched the last step's metrics, so
        # the device's work for them is in the profile.
        if self._capture is not None and self._captured_calls >= self._calls_of_a_capture:
            self._end(None)
        capture = self._capture
        edges = (1, self._calls_of_a_capture - 1)
        if capture and capture.record.trigger == "steady" and self._captured_calls in edges:
            self._on_counted()
        last_step = self._step - self._first_step + self._steps_of_call
        if last_step >= self._scheduled_step:
            self.want("steps", f"step {self._scheduled_step:.0f} of the run")
            self._scheduled_step = self._next_scheduled(last_step)
        if self._wanted is not None and not self.is_capturing:
            self._begin()

    def _begin(self) -> None:
        assert self._wanted is not None
        trigger, reason = self._wanted
        refusal = self._limits.refusal()
        if refusal is not None:
            self._miss(trigger, reason, refusal)
            return
        # Stored before it begins: if Ctrl-C interrupts `begin`, the run's end still ends it.
        self._capture = capture = Capture(self._log_dir, trigger, reason, self._step + 1)
        self._captured_calls, self._calls_of_a_capture = 0, self._calls_of_next
        self._wanted = None
        try:
            capture.begin()
        except Exception as error:
            self._capture = None
            self._fail_to_begin(trigger, reason, error)
        else:
            self._giving_way = give_way(self._preempted)

    def _end(self, because: str | None) -> None:
        capture = self._capture
        if capture is None:
            return  # another thread has ended it meanwhile
        self._ended.append(capture)
        self._limits.taken += 1
        steps = self._step + 1 - capture.record.first_step
        capture.end(steps, because, self._limits.room_bytes, self._keep)
        self._capture = None

    def _preempted(self) -> None:
        """Ends our capture, since other code starts a profile."""
        self.interrupt("other code started a profile")
        for capture in self._ended:
            capture.wait()

    def _give_way_no_more(self) -> None:
        end, self._giving_way = self._giving_way, None
        if end is not None:
            end()

    def _fail_to_begin(self, trigger: Trigger, reason: str, error: Exception) -> None:
        import tensorflow as tf

        if isinstance(error, tf.errors.AlreadyExistsError):
            self._miss(trigger, reason, RUNNING_ELSEWHERE)
            self._warn(
                f"a capture was not started: {RUNNING_ELSEWHERE}. Have the other one end with "
                "tf.profiler.experimental.stop(), or capture other steps",
                trigger,
            )
        else:
            self._miss(trigger, reason, failure("starting the profiler", error))
            self._warn(f"a capture was not started ({type(error).__name__}: {error})", trigger)

    def _miss(self, trigger: Trigger, reason: str, because: str) -> None:
        if len(self._missed) < MOST_MISSED:
            self._missed.append(MissedCapture(trigger, reason, self._step + 1, because))
        self._wanted = None

    def _keep(self, record: CaptureRecord) -> None:
        """Stores a capture's final record; usually runs on the thread that wrote the profile."""
        self._give_way_no_more()
        self._records.append(record)
        self._limits.room_bytes -= record.profile_bytes or 0
        if record.failed_because is not None:
            self._warn(f"a capture failed: {record.failed_because}", record.trigger)
        if record.incomplete_because is not None:
            self._warn(f"a capture is not complete: {record.incomplete_because}", record.trigger)
        self._emit(record)

    def _warn(self, what: str, trigger: Trigger) -> None:
        """Logs a problem once, but not one of a capture that the user did not ask for."""
        if what not in self._logged and not (self._is_automatic and trigger != "file"):
            self._logged.add(what)
            logger.warning("keras_gpukit: %s. Training goes on.", what.rstrip("."))
