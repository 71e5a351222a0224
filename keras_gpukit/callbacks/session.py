"""What all callbacks that watch one call of `fit`, `evaluate` or `predict` share.

One clock around each step function, one writer thread, one sampling thread.
"""

from __future__ import annotations

import atexit
import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from keras_gpukit.callbacks.environment import read_environment
from keras_gpukit.callbacks.liveness import RunningCall
from keras_gpukit.errors import give_up
from keras_gpukit.input_wait.clock import StepClock
from keras_gpukit.input_wait.examples import ExampleCounter
from keras_gpukit.input_wait.meters import RequestMeter, choose_meter
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.run import Ending
from keras_gpukit.records.steps import Phase, StepWindow
from keras_gpukit.sensors.sampling import SamplingThread
from keras_gpukit.writers.run_log import RunLog

# The model's attribute that holds each phase's step function.
STEP_FUNCTIONS: dict[Phase, str] = {
    "fit": "train_function",
    "evaluate": "test_function",
    "predict": "predict_function",
}
SAMPLE_EVERY_S = 1.0


class FirstStepWatch:
    """Entered around the first step of a call; what fails in it is said and left.

    Attributes:
        before: Called before the step.
        after: Called after it, also when it raised.
        spent_s: Time they took.
    """

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._call(self.before)

    def __exit__(self, *exception: object) -> None:
        self._call(self.after)

    def _call(self, actions: list[Callable[[], None]]) -> None:
        began = time.perf_counter()
        for action in actions:
            try:
                action()
            except Exception as error:
                give_up("Watching the first step", error, "What it would have told is unknown.")
        self.spent_s += time.perf_counter() - began


class Session:
    """One watched call. Callbacks join it, and the last one to leave ends it.

    Args:
        model: The model that is run.
        log_dir: Where the run is written, or None.
        phase: What is run.
    """

    def __init__(self, model: Any, log_dir: Path | None, phase: Phase) -> None:
        began = time.perf_counter()
        self.model = model
        self.log_dir = log_dir
        self.phase = phase
        self.ending: Ending = "completed"
        self.first_step = _global_step(model)
        self.clocks: dict[Phase, StepClock] = {}
        self.request_meter = RequestMeter()
        self.log = RunLog(log_dir) if log_dir is not None else None
        self.sampler = SamplingThread(SAMPLE_EVERY_S)
        self.first_step_watch = FirstStepWatch()
        self._members: list[Callable[[Session], None]] = []
        self._watchers: dict[Phase, list[Callable[[StepWindow], None]]] = {}
        self._unwrapped: dict[Phase, tuple[Any, Any]] = {}
        self._recurring_s = 0.0
        self._once_s = 0.0
        self._began_s = began
        self._call = RunningCall(phase)
        self._lock = threading.RLock()
        self._open = True
        self.sampler.add("whether the run goes on", self.end_if_over)
        self.sampler.start()
        self.add_cost(time.perf_counter() - began, once=True)

    @functools.cached_property
    def environment(self) -> Environment:
        """Versions, devices and execution settings."""
        return read_environment(self.model)

    @property
    def step(self) -> int:
        """Global step."""
        clock = self.clocks.get(self.phase)
        return self.first_step if clock is None else clock.step

    def steps(self, phase: Phase) -> int:
        """Steps of a phase that ran.

        The optimizer's own count is the exact one: the last execution of several steps may have
        been a shorter one.
        """
        updates = _global_step(self.model) - self.first_step
        if phase == "fit" and updates > 0:
            return updates
        return self.clocks[phase].steps if phase in self.clocks else 0

    @property
    def wall_s(self) -> float:
        """Time since the call was joined."""
        return time.perf_counter() - self._began_s

    @property
    def overhead_s(self) -> float:
        """What watching costs again and again, so far.

        Time on the training thread, and processor time beside it.
        """
        writing_s = self.log.cpu_s - self.log.opening_cpu_s if self.log else 0.0
        timing_s = sum(clock.total_overhead_s for clock in self.clocks.values())
        return self._recurring_s + self.sampler.cpu_s + writing_s + timing_s

    @property
    def startup_s(self) -> float:
        """What watching cost once, in the same measure."""
        opening_s = self.log.opening_cpu_s if self.log else 0.0
        return self._once_s + self.first_step_watch.spent_s + opening_s

    def add_cost(self, spent_s: float, *, once: bool) -> None:
        """Counts time that a callback spent on the training thread."""
        if once:
            self._once_s += spent_s
        else:
            self._recurring_s += spent_s

    def join(self, leave: Callable[[Session], None]) -> None:
        """Takes a callback in.

        Args:
            leave: Called when the run is over before the callback was told by Keras.
        """
        self._members.append(leave)

    def leave(self, leave: Callable[[Session], None]) -> None:
        """Lets a callback go; with the last one the session ends."""
        with self._lock:
            if leave in self._members:
                self._members.remove(leave)
            if not self._members:
                self._close()

    def watch_steps(
        self,
        phase: Phase,
        on_window: Callable[[StepWindow], None],
    ) -> StepClock:
        """Has a phase's step function timed.

        Args:
            phase: The phase that begins.
            on_window: Called with each finished window of steps.

        Returns:
            The clock.
        """
        watchers = self._watchers.setdefault(phase, [])
        watchers.append(on_window)
        if phase not in self._unwrapped:
            self._wrap(phase)
        return self.clocks[phase]

    def pause(self, phase: Phase) -> None:
        """A phase's steps are interrupted, by an epoch's end or a validation."""
        if phase in self.clocks:
            self.clocks[phase].pause()

    def unwatch_steps(self, phase: Phase) -> None:
        """A phase is over: its step function is set back."""
        self.pause(phase)
        self._watchers.pop(phase, None)
        if phase in self._unwrapped:
            original, wrapped = self._unwrapped.pop(phase)
            if getattr(self.model, STEP_FUNCTIONS[phase], None) is wrapped:
                # What another session put underneath and has left since goes too.
                while hasattr(original, "gpukit_left"):
                    original = original.gpukit_left
                setattr(self.model, STEP_FUNCTIONS[phase], original)
            else:
                # Somebody else wrapped or replaced the function since; it is theirs now.
                wrapped.gpukit_left = original

    def end_if_over(self) -> None:
        """Ends a session whose call ended by an exception, which Keras tells nobody."""
        with self._lock:
            if self._open and self._call.over:
                self.abort()

    def abort(self) -> None:
        """Ends the session early."""
        with self._lock:
            if self._open:
                self.ending = "interrupted"
                for leave in tuple(self._members):
                    leave(self)
                self._close()

    def _wrap(self, phase: Phase) -> None:
        name = STEP_FUNCTIONS[phase]
        original = getattr(self.model, name)
        clock = self.clocks.get(phase)
        if clock is None:
            clock = self.clocks[phase] = StepClock(
                phase=phase,
                steps_per_execution=self.model.steps_per_execution,
                first_step=self.first_step,
                on_window=functools.partial(self._tell, phase),
                examples=ExampleCounter(self.model) if phase != "predict" else None,
                around_first_call=self.first_step_watch if phase == self.phase else None,
                choose=self._choose_request_meter if phase == "predict" else choose_meter,
            )
        if phase == "predict":
            wrapped = clock.wrap_batches(original, self.request_meter)
        else:
            wrapped = clock.wrap(original)
        setattr(self.model, name, wrapped)
        self._unwrapped[phase] = (original, wrapped)

    def _choose_request_meter(self, source: Any, steps_per_execution: int) -> RequestMeter:
        return self.request_meter

    def _tell(self, phase: Phase, window: StepWindow) -> None:
        if self.log is not None:
            self.log.record("steps", window)
        for watcher in self._watchers.get(phase, ()):
            watcher(window)

    def _close(self) -> None:
        if not self._open:
            return
        self._open = False
        for phase in tuple(self._unwrapped):
            self.unwatch_steps(phase)
        self.sampler.stop()
        if self.log is not None:
            self.log.close()
        _sessions.pop((id(self.model), self.log_dir), None)


_sessions: dict[tuple[int, Path | None], Session] = {}


def current_session(model: Any, log_dir: Path | None, phase: Phase) -> Session:
    """Returns the session of the call under way, begun if need be.

    A validation inside `fit` belongs to the session of that `fit`.
    """
    key = (id(model), log_dir)
    session = _sessions.get(key)
    if session is not None:
        session.end_if_over()
    if key not in _sessions:
        _sessions[key] = Session(model, log_dir, phase)
    return _sessions[key]


@atexit.register
def _end_all() -> None:
    for session in tuple(_sessions.values()):
        session.abort()


def _global_step(model: Any) -> int:
    iterations = getattr(getattr(model, "optimizer", None), "iterations", None)
    return 0 if iterations is None else int(keras.ops.convert_to_numpy(iterations))
