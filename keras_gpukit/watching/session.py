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

from keras_gpukit.input_wait.wall_time import WallTime
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.run import Ending
from keras_gpukit.records.steps import Phase, StepWindow
from keras_gpukit.sensors.heartbeat import Heartbeat
from keras_gpukit.sensors.sampling import SamplingThread
from keras_gpukit.watching.environment import read_environment
from keras_gpukit.watching.running_call import RunningCall
from keras_gpukit.watching.step_functions import StepFunctions
from keras_gpukit.writers.run_log import RunLog

SAMPLE_EVERY_S = 1.0


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
        self.log = RunLog(log_dir) if log_dir is not None else None
        self.sampler = SamplingThread(SAMPLE_EVERY_S)
        self._call = RunningCall(phase)
        self.wall = WallTime("callbacks" if phase == "fit" else "epoch start")
        heartbeat = Heartbeat(SAMPLE_EVERY_S)
        self.step_functions = StepFunctions(
            model,
            phase,
            self.first_step,
            self._record_window,
            lambda: self._call.over,
            self.wall,
            heartbeat.stopped_since,
        )
        self._members: list[Callable[[Session], None]] = []
        self._recurring_s = 0.0
        self._once_s = 0.0
        self._lock = threading.RLock()
        self._open = True
        self.sampler.add("whether the run goes on", lambda: self.end_if_over(wait=False))
        self.sampler.add("whether the process stood still", heartbeat.beat)
        self.sampler.start()
        self.add_cost(time.perf_counter() - began, once=True)

    @functools.cached_property
    def environment(self) -> Environment:
        """Versions, devices and execution settings."""
        return read_environment(self.model)

    @property
    def step(self) -> int:
        """Global step."""
        clock = self.step_functions.clocks.get(self.phase)
        return self.first_step if clock is None else clock.step

    def steps(self, phase: Phase) -> int:
        """Steps of a phase that ran."""
        clock = self.step_functions.clocks.get(phase)
        if clock is None:
            return 0
        # The last execution over a pipeline may have been a shorter one: the optimizer knows,
        # unless it counts something else.
        updates = _global_step(self.model) - self.first_step
        spare_steps = (self.model.steps_per_execution - 1) * clock.pipelines
        fits = phase == "fit" and 0 <= clock.steps - updates <= spare_steps
        return updates if fits else clock.steps

    @property
    def overhead_s(self) -> float:
        """What watching costs again and again, so far.

        Time on the training thread, and processor time beside it.
        """
        writing_s = self.log.cpu_s - self.log.opening_cpu_s if self.log else 0.0
        timing_s = self.step_functions.overhead_s
        return self._recurring_s + self.sampler.cpu_s + writing_s + timing_s

    @property
    def startup_s(self) -> float:
        """What watching cost once, in the same measure."""
        opening_s = self.log.opening_cpu_s if self.log else 0.0
        return self._once_s + self.step_functions.startup_s + opening_s

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

    def end_if_over(self, *, wait: bool = True) -> None:
        """Ends a session whose call ended by an exception, which Keras tells nobody.

        Args:
            wait: Whether to wait for another thread that is ending it; that one may in turn wait
                for the sampling thread.
        """
        if self._lock.acquire(blocking=wait):
            try:
                if self._open and self._call.over:
                    self.abort()
            finally:
                self._lock.release()

    def abort(self) -> None:
        """Ends the session early."""
        with self._lock:
            if self._open:
                self.ending = "interrupted"
                for leave in tuple(self._members):
                    leave(self)
                self._close()

    def _record_window(self, window: StepWindow) -> None:
        if self.log is not None:
            self.log.record("steps", window, window.step)

    def _close(self) -> None:
        if not self._open:
            return
        self._open = False
        self.step_functions.set_back()
        self.sampler.stop()
        self._call.forget()
        if self.log is not None:
            self.log.close()
        _sessions.pop((id(self.model), self.log_dir), None)


_sessions: dict[tuple[int, Path | None], Session] = {}


def current_session(model: Any, log_dir: Path | None, phase: Phase) -> Session:
    """Returns the session of the call under way, begun if need be.

    A validation inside `fit` belongs to the session of that `fit`.
    """
    key = (id(model), log_dir)
    # Also those with other log directories: what a call that failed left around the model's step
    # functions is not to be watched anew.
    for session in tuple(_sessions.values()):
        if session.model is model:
            session.end_if_over()
    if key not in _sessions:
        _sessions[key] = Session(model, log_dir, phase)
    return _sessions[key]


@atexit.register
def _end_all() -> None:
    for session in tuple(_sessions.values()):
        session.abort()


def _global_step(model: Any) -> int:
    import keras

    iterations = getattr(getattr(model, "optimizer", None), "iterations", None)
    return 0 if iterations is None else int(keras.ops.convert_to_numpy(iterations))
