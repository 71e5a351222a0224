"""What all callbacks that watch one call of `fit`, `evaluate` or `predict` share.

One clock around each step function, one writer thread, one sampling thread.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_gpukit.errors import give_up
from keras_gpukit.input_wait.self_cost import StepFunction
from keras_gpukit.input_wait.wall_time import WallTime
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.run import Ending
from keras_gpukit.records.steps import InputRecord, Phase, StepWindow, ThroughputRecord
from keras_gpukit.sensors.heartbeat import Heartbeat
from keras_gpukit.sensors.sampling import SamplingThread
from keras_gpukit.watching.environment import read_environment
from keras_gpukit.watching.first_step import FirstStepHooks
from keras_gpukit.watching.phase_steps import PhaseSteps
from keras_gpukit.watching.running_call import RunningCall
from keras_gpukit.watching.step_count import steps_so_far
from keras_gpukit.writers.run_log import RunLog

SAMPLE_EVERY_S = 1.0


class Session:
    """One watched call. Callbacks join it, and the last one to leave ends it.

    Args:
        model: The model that is run.
        log_dir: Where the run is written, or None.
        phase: What is run.

    Attributes:
        wall: Where the call's time goes.
        ending: How the call ended.
        first_step: Global step before the call.
    """

    def __init__(self, model: Any, log_dir: Path | None, phase: Phase) -> None:
        self.model = model
        self.log_dir = log_dir
        self.phase = phase
        self.ending: Ending = "completed"
        self.first_step = steps_so_far(model)
        self.wall = WallTime("callbacks" if phase == "fit" else "epoch start")
        self.is_open = True
        self._call = RunningCall(phase)
        self._log: RunLog | None = None
        self._sampler = SamplingThread(SAMPLE_EVERY_S)
        self._heartbeat = Heartbeat(SAMPLE_EVERY_S)
        self._first_step_hooks = FirstStepHooks()
        self._on_error: list[Callable[[BaseException], None]] = []
        self._members: list[Callable[[Session], None]] = []
        self._recurring_s = 0.0
        self._once_s = 0.0
        # The call's own now: the sampling thread asks for its step.
        self._phases = {phase: self._make_steps(phase)}
        self._lock = threading.RLock()
        self.every_second("whether the run goes on", lambda: self.end_if_over(wait=False))
        self.every_second("whether the process stood still", self._heartbeat.beat)

    def start(self) -> None:
        """Starts the threads. The session can be found and ended before this."""
        if self.log_dir is not None:
            self._log = RunLog(self.log_dir)
        self._sampler.start()

    @functools.cached_property
    def environment(self) -> Environment:
        """Versions, devices and execution settings."""
        return read_environment(self.model)

    @property
    def step(self) -> int:
        """Global step."""
        return self._phases[self.phase].step

    @property
    def in_steps(self) -> bool:
        """Whether the call is at its steps: not at a validation, a checkpoint or a start."""
        return self.wall.part == "steps"

    @property
    def overhead_s(self) -> float:
        """Recurring overhead so far: training thread time, and processor time alongside it."""
        log = self._log
        writing_s = log.cpu_s - log.opening_cpu_s if log else 0.0
        timing_s = sum(steps.recurring_s for steps in self._phases.values())
        return self._recurring_s + self._sampler.cpu_s + writing_s + timing_s

    @property
    def startup_s(self) -> float:
        """Overhead that came once, in the same measure."""
        opening_s = self._log.opening_cpu_s if self._log else 0.0
        timing_s = sum(steps.startup_s for steps in self._phases.values())
        return self._once_s + self._first_step_hooks.spent_s + timing_s + opening_s

    def add_cost(self, spent_s: float, *, once: bool) -> None:
        """Counts time that a callback spent on the training thread."""
        if once:
            self._once_s += spent_s
        else:
            self._recurring_s += spent_s

    def values(
        self, step: int, values: Mapping[str, float | str | None], time_s: float | None = None
    ) -> None:
        """Writes numbers or Markdown texts, by tag, for TensorBoard, if the run is written."""
        if self._log is not None:
            self._log.values(step, values, time_s)

    def record(self, kind: str, record: Any, step: int | None = None) -> None:
        """Writes a record to the run's file, if the run is written."""
        if self._log is not None:
            self._log.record(kind, record, step)

    def on_window(self, phase: Phase, action: Callable[[StepWindow], None]) -> None:
        """Has a phase's steps timed, and calls with each finished window of them."""
        self._steps_of(phase).watch(action)

    def around_steps(
        self, around: Callable[[StepFunction], StepFunction], on_pause: Callable[[], None]
    ) -> None:
        """Puts something around each step of the call; see `PhaseSteps.surround`."""
        self._steps_of(self.phase).surround(around, on_pause)

    def on_first_step(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        """Calls right before and after the first step of the call, also if the step raises."""
        self._first_step_hooks.before.append(before)
        self._first_step_hooks.after.append(after)
        self.on_window(self.phase, lambda window: None)

    def on_error(self, action: Callable[[BaseException], None]) -> None:
        """Calls with the exception by which a step of the call ends it."""
        self._on_error.append(action)

    def every_second(self, name: str, action: Callable[[], None]) -> None:
        """Calls about once a second, on another thread.

        Args:
            name: What the action reads, for the warning should it fail.
            action: What is called.
        """
        self._sampler.add(name, action)

    def read_now(self, name: str) -> None:
        """Calls what is called every second under a name, on this thread."""
        self._sampler.call(name)

    def requested(self) -> None:
        """`predict` asks for a batch, which it fetches outside its step function."""
        self._steps_of("predict").requested()

    def note_finished(self, phase: Phase, by: object) -> None:
        """The results of a phase's next step are there; any thread may say so.

        Args:
            phase: What the step belongs to.
            by: The callback that reports it.
        """
        if phase in self._phases:
            self._phases[phase].note_finished(by)

    def pause(self, batch_ended_s: float) -> None:
        """Steps are interrupted, by an epoch's end or a validation.

        Args:
            batch_ended_s: When Keras reported the end of the last batch.
        """
        self.wall.batch_ended_s = batch_ended_s
        self._steps_of(self.phase).pause()

    def end_phase(self, phase: Phase) -> None:
        """A phase is over: its last window ends, and its step function is restored."""
        self._steps_of(phase).restore()

    def steps(self, phase: Phase) -> int:
        """Steps of a phase that ran."""
        return self._steps_of(phase).steps

    def step_time_s(self, phase: Phase) -> float | None:
        """Mean step time of a phase."""
        return self._steps_of(phase).step_time_s

    def throughput(self, phase: Phase) -> ThroughputRecord:
        """Step times and rates of a phase."""
        return self._steps_of(phase).throughput()

    def input(self, phase: Phase) -> InputRecord:
        """The input wait of a phase."""
        return self._steps_of(phase).input()

    def join(self, leave: Callable[[Session], None]) -> None:
        """Takes a callback in.

        Args:
            leave: Called when the run is over before Keras told the callback.
        """
        self._members.append(leave)

    def leave(self, leave: Callable[[Session], None]) -> None:
        """Lets a callback go; with the last one the session ends."""
        with self._lock:
            if leave in self._members:
                self._members.remove(leave)
            if not self._members:
                self._close()

    def end_if_over(self, *, wait: bool = True) -> None:
        """Ends a session whose call ended by an exception, which Keras does not report.

        Args:
            wait: Whether to wait for another thread that is ending it; that one may in turn wait
                for the sampling thread.
        """
        if self._lock.acquire(blocking=wait):
            try:
                if self.is_open and self._call.over:
                    self.abort()
            finally:
                self._lock.release()

    def abort(self) -> None:
        """Ends the session early."""
        with self._lock:
            if self.is_open:
                self.ending = "interrupted"
                for leave in tuple(self._members):
                    leave(self)
                self._close()

    def _close(self) -> None:
        if not self.is_open:
            return
        try:
            self._end_parts()
        except BaseException:  # an interrupt; what is ended already ends again without harm
            self._end_parts()
            raise

    def _end_parts(self) -> None:
        for steps in self._phases.values():
            steps.restore()
        self._first_step_hooks.close()
        with contextlib.suppress(RuntimeError):  # an interrupt came before the thread started
            self._sampler.stop()
        if self._log is not None:
            self._log.close()
        self.is_open = False
        self._call.forget()
        # References to the session, and cycles within it, must not keep the run's data alive.
        for steps in self._phases.values():
            steps.release()
        self._on_error.clear()
        if _sessions.get((id(self.model), self.log_dir)) is self:
            del _sessions[id(self.model), self.log_dir]

    def _steps_of(self, phase: Phase) -> PhaseSteps:
        if phase not in self._phases:
            self._phases[phase] = self._make_steps(phase)
        return self._phases[phase]

    def _make_steps(self, phase: Phase) -> PhaseSteps:
        own = phase == self.phase
        return PhaseSteps(
            self.model,
            phase,
            self.first_step,
            on_window=lambda window: self.record("steps", window, window.step),
            on_error=self._tell_error,
            stood_still_since=self._heartbeat.stopped_since,
            is_over=lambda: self._call.over,
            wall=self.wall if own else None,
            first_call=self._first_step_hooks if own else None,
        )

    def _tell_error(self, error: BaseException) -> None:
        for action in tuple(self._on_error):
            try:
                action(error)
            except Exception as failure:
                give_up("Reading a step's error", failure, "It is not reported.")


_sessions: dict[tuple[int, Path | None], Session] = {}


def current_session(model: Any, log_dir: Path | None, phase: Phase) -> Session:
    """Returns the session of the running call, started if need be.

    A validation inside `fit` belongs to the session of that `fit`.
    """
    key = (id(model), log_dir)
    # Also those with other log directories: what a call that failed left around the model's step
    # functions must not be watched again.
    for session in tuple(_sessions.values()):
        if session.model is model:
            session.end_if_over()
    if key not in _sessions:
        began = time.perf_counter()
        # Known before it starts anything: should an interrupt come, the next call ends it.
        _sessions[key] = session = Session(model, log_dir, phase)
        session.start()
        session.add_cost(time.perf_counter() - began, once=True)
    return _sessions[key]


@atexit.register
def _end_all() -> None:
    for session in tuple(_sessions.values()):
        session.abort()
