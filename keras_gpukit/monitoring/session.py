"""Session: what the callbacks that monitor one call of `fit` or the like share."""

from __future__ import annotations

import atexit
import functools
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_gpukit.distributed.clusters import this_worker
from keras_gpukit.input.wait.clock import OwnCost
from keras_gpukit.monitoring.call_frame import callback_list
from keras_gpukit.monitoring.call_steps import CallSteps
from keras_gpukit.monitoring.environment import read_environment
from keras_gpukit.monitoring.run_output import RunOutput
from keras_gpukit.monitoring.sampling import Sampling
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.run import Ending, RunEnd
from keras_gpukit.records.steps import Phase, Progress

NOTE_EVERY_S = 10.0
"""Seconds between two records of progress while nothing changes. A run whose record has not grown
for longer is over."""
WRAPPERS_S = 4e-6
"""Estimated seconds that our wrappers add to a step, whose work leaves cold caches: measuring them
at every step would take longer than that. See `benchmarks/results/watching_cost.json`."""


class ProgressNotes:
    """Writes what a call is doing whenever that changes, and at least every ten seconds."""

    def __init__(self, steps: CallSteps, params: Mapping[str, Any] | None) -> None:
        self._steps = steps
        params, in_fit = params or {}, steps.phase == "fit"
        self._epochs = _count(params.get("epochs")) if in_fit else None
        self._epoch_steps = _count(params.get("steps"))
        self._written: tuple[object, ...] = ()
        self._written_s = 0.0

    def note(self) -> None:
        """Writes a record if something has changed, or the last one is ten seconds old."""
        steps, now_s = self._steps, time.perf_counter()
        doing = steps.wall.part, steps.epoch
        if self._written == doing and now_s - self._written_s < NOTE_EVERY_S:
            return
        self._written, self._written_s = doing, now_s
        step, (part, epoch) = steps.step, doing
        progress = Progress(steps.phase, part, step, epoch, self._epochs, self._epoch_steps)
        steps.output.write_record("progress", progress, step)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


class Session:
    """One monitored call of `fit`, `evaluate` or `predict`, closed when the last callback leaves.

    Attributes:
        output: Takes what is measured.
        sampling: Samples once a second, and stacks more often.
        steps: Yields windows of steps, and follows the call.
        cost: Seconds of our own work on the training thread.
        ending: How the call ended: "completed" or "interrupted".
        is_open: Whether it still monitors the call.
    """

    def __init__(self, model: Any, log_dir: Path | None, phase: Phase) -> None:
        self.model = model
        self.phase = phase
        self.ending: Ending = "completed"
        self.is_open = True
        self.cost = OwnCost()
        self.output = output = RunOutput(log_dir)
        self.sampling = Sampling(functools.partial(output.event, "stood still"))
        suspended_since = self.sampling.suspended_since
        self.steps = CallSteps(model, phase, output, self.cost, suspended_since)
        self._leave: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        params = getattr(callback_list(phase), "params", None)
        notes = ProgressNotes(self.steps, params)
        self._progress = self.sampling.every_second("what the run is doing", notes.note)
        self.sampling.every_second("whether the run goes on", lambda: self.end_if_over(wait=False))

    def start(self) -> None:
        """Starts watching and the threads. The session can already be closed before this."""
        self.steps.start()
        self.output.watch_saves(self.model)
        self.sampling.watch_code(self.steps.between_steps)
        self.output.start(this_worker(self.model), self.phase, lambda: self.steps.step)
        self.sampling.start(stacks=True)

    @functools.cached_property
    def environment(self) -> Environment:
        """Versions, devices and execution settings."""
        return read_environment(self.model)

    @property
    def is_over(self) -> bool:
        """Whether the call has ended, even if callbacks were not notified."""
        return self.steps.frame.over

    @property
    def overhead_s(self) -> float:
        """Recurring overhead so far: processor time, and time at the ends of validations."""
        wrappers_s = WRAPPERS_S * self.steps.executions
        return self.cost.recurring_s + self.sampling.cpu_s + self.output.writing_s + wrappers_s

    @property
    def startup_s(self) -> float:
        """One-time overhead, measured like `overhead_s`."""
        return self.cost.once_s + self.sampling.once_s + self.output.opening_s

    def join(self, leave: Callable[[], None]) -> None:
        """Adds a callback, by what it does to leave."""
        self._leave.append(leave)

    def ends(self, phase: Phase) -> None:
        """Notes that a callback is about to leave at the end of a phase."""
        steps = self.steps
        if phase != self.phase:
            steps.wall.switch("callbacks")
            return
        self.sampling.stop()  # a reading must not follow the summary
        self.sampling.read_now(self._progress)
        steps.wall.end()
        self.output.epoch_ended(steps.epoch)  # in case the epoch was interrupted

    def record_end(self) -> None:
        """Records how the call ended, once: without that, its process counts as killed."""
        if self.output.claim("the end"):
            errors = self.steps.errors if self.ending == "interrupted" else None
            ended_by = (errors.last, errors.message, errors.line, errors.kind) if errors else ()
            self.output.write_record("end", RunEnd(self.ending, *ended_by))

    def leave(self, leave: Callable[[], None]) -> None:
        """Removes a callback, and closes the session if it was the last one."""
        with self._lock:
            if leave in self._leave:
                self._leave.remove(leave)
            if not self._leave:
                self._close()

    def end_if_over(self, *, wait: bool = True) -> None:
        """Ends the session if an exception has ended its call, which Keras does not report.

        The sampling thread must not wait for another thread that is ending the session, since that
        one may be waiting for it.
        """
        if self._lock.acquire(blocking=wait):
            try:
                if self.is_open and self.is_over:
                    self.abort()
            finally:
                self._lock.release()

    def abort(self, because: str | None = None) -> None:
        """Ends the session early, by an exception or for a cause such as "SIGTERM"."""
        with self._lock:
            if self.is_open:
                self.ending = "interrupted"
                if because is not None:
                    self.steps.errors.ended_by(because, self.steps.wall.part)
                for leave in tuple(self._leave):
                    leave()
                self._close()

    def _close(self) -> None:
        if not self.is_open:
            return
        try:
            self._close_parts()
        except BaseException:  # an interrupt; closing again what is already closed is harmless
            self._close_parts()
            raise

    def _close_parts(self) -> None:
        """Restores the model, ends the threads, and forgets the call."""
        self.record_end()
        self.steps.close()
        self.sampling.close()
        self.output.close()
        self.steps.release()
        self.is_open = False
        key = id(self.model), self.output.log_dir
        if _open.get(key) is self:
            del _open[key]


_open: dict[tuple[int, Path | None], Session] = {}


def open_session(model: Any, log_dir: Path | None, phase: Phase) -> Session:
    """Returns the session of the running call; starts one if none is open.

    A validation inside `fit` belongs to the session of that `fit`.
    """
    # Also sessions with other log directories: wrappers that a failed call left around the model's
    # step functions must not be monitored again.
    for session in tuple(_open.values()):
        if session.model is model:
            session.end_if_over()
    key = id(model), log_dir
    if key not in _open:
        # Registered before it starts anything: if an interrupt comes, the next call ends it.
        _open[key] = Session(model, log_dir, phase)
        _open[key].start()
    return _open[key]


def is_watched(model: Any) -> bool:
    """Whether a call of this model is being monitored."""
    return any(
        session.model is model and session.is_open and not session.is_over
        for session in tuple(_open.values())
    )


@atexit.register
def end_all(because: str | None = None) -> None:
    """Ends every session; see `Session.abort`."""
    for session in tuple(_open.values()):
        session.abort(because)
