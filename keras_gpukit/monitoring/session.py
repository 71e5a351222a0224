"""Session: the state shared by all callbacks that monitor one call of `fit` or the like.

A session has one clock around each step function, one writer thread and one sampling thread. It
monitors one call of `fit`, `evaluate` or `predict`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_gpukit.distributed.clusters import this_worker
from keras_gpukit.errors import Guard
from keras_gpukit.input.wait.clock import OwnCost
from keras_gpukit.input.wait.wall_time import WallTime
from keras_gpukit.monitoring.call_errors import CallErrors
from keras_gpukit.monitoring.call_frame import CallFrame, callback_list
from keras_gpukit.monitoring.callback_list import CallbackListWatch
from keras_gpukit.monitoring.environment import read_environment
from keras_gpukit.monitoring.phase_steps import PhaseSteps
from keras_gpukit.monitoring.progress import ProgressNotes
from keras_gpukit.monitoring.retraced_functions import RetracedFunctions
from keras_gpukit.monitoring.run_events import RunEventNotes
from keras_gpukit.monitoring.run_output import RunOutput
from keras_gpukit.monitoring.script_stacks import STACKS
from keras_gpukit.monitoring.step_count import steps_so_far
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.machine import SAMPLE_EVERY_S
from keras_gpukit.records.run import Ending, RunEnd
from keras_gpukit.records.script import StackPart, StackTimes
from keras_gpukit.records.steps import Part, Phase, StepWindow
from keras_gpukit.sensors.sampling import Heartbeat, SamplingThread
from keras_gpukit.sensors.stack_parts import CodeWatch
from keras_gpukit.sensors.stacks import StackSampler

WRAPPERS_S = 4e-6
"""Estimated seconds that our wrappers add to a step, whose work leaves cold caches: measuring them
at every step would take longer than that. See `benchmarks/results/watching_cost.json`."""


class FirstStepHooks:
    """Context manager around the first step of a call. Actions that fail are logged and skipped."""

    def __init__(self, cost: OwnCost) -> None:
        self._cost = cost
        self._entered = False
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._entered = True
        self._call(self.before)

    def __exit__(self, *exception: object) -> None:
        if self._entered:
            self._call(self.after)
            self._entered = False

    def close(self) -> None:
        """Exits a first step that was interrupted, and forgets all actions."""
        self.__exit__()
        self.before, self.after = [], []

    def _call(self, actions: list[Callable[[], None]]) -> None:
        began_s = time.perf_counter()
        for action in actions:
            with Guard("Monitoring the first step", "What it would have measured is unknown."):
                action()
        self._cost.add(time.perf_counter() - began_s, once=True)


class Session:
    """One monitored call, shared by several callbacks.

    Attributes:
        stood_still_since: Returns whether the process was suspended since a moment on the clock.
        ending: How the call ended: "completed" or "interrupted".
        errors: Reports the exceptions of steps and callbacks. Those raised elsewhere, such as when
            Keras makes an iterator of the data, are unknown.
        cost: Seconds of our own work on the training thread.
        epoch: Number of the current epoch, from 1; None before the first epoch and outside `fit`.
    """

    def __init__(self, model: Any, log_dir: Path | None, phase: Phase) -> None:
        self.model = model
        self.output = RunOutput(log_dir)
        self.phase = phase
        self.ending: Ending = "completed"
        self.first_step = steps_so_far(model)
        self.cost = OwnCost()
        self.epoch: int | None = None
        self.events = RunEventNotes(model, self.output.record, lambda: self.step)
        self.frame = CallFrame(phase)
        self.errors = CallErrors(lambda: self.step, lambda: self.epoch, self.first_step)
        self._callback_list = CallbackListWatch(
            callback_list(phase),
            self.errors.of_callback,
            self._epoch_began,
            lambda: self.own_steps.end_epoch(),
            self._epoch_ended,
        )
        self._retraced = RetracedFunctions(lambda spent_s: self.wall.note_tracing(spent_s))
        begins_with: Part = "callbacks" if phase == "fit" else "epoch start"
        self.wall = WallTime(
            begins_with,
            on_part=self.events.part,
            by_callback=self._callback_list.times.by_class,
            callbacks_at_epochs=self._callback_list.times.at_epochs_s,
            callbacks_by_thirds=self._callback_list.times.by_thirds,
            retraced=self._retraced.record,
        )
        self._sampler = SamplingThread(SAMPLE_EVERY_S)
        self._stacks: StackSampler | None = None
        self._code_watches: list[CodeWatch] = []
        self._began_s = time.perf_counter()
        self._heartbeat = Heartbeat(SAMPLE_EVERY_S, on_stop=self.events.suspended)
        self.suspended_since = self._heartbeat.stopped_since
        self.first_step_hooks = FirstStepHooks(self.cost)
        self._on_epoch_ended: list[Callable[[], None]] = []
        # The steps of the call itself are needed now: the sampling thread reads the global step.
        self._phases = {phase: PhaseSteps(self, phase)}
        self.every_second("whether the process was suspended", self._heartbeat.beat)
        params = getattr(callback_list(phase), "params", None)
        notes = ProgressNotes(self, params)
        self._progress = self.every_second("what the run is doing", notes.note)

    def start(self) -> None:
        """Starts watching and the threads. The session can already be closed before this."""
        self._callback_list.start()
        self.events.start()
        self._retraced.start()
        self._stacks = STACKS.acquire()
        for watch in (self._callback_list.times.between_steps, *self._code_watches):
            self._stacks.watch(watch)
        self.output.start(this_worker(self.model), self.phase)
        self._sampler.start()

    @functools.cached_property
    def environment(self) -> Environment:
        """Versions, devices and execution settings."""
        return read_environment(self.model)

    @property
    def step(self) -> int:
        """Global step."""
        return self.own_steps.step

    @property
    def is_over(self) -> bool:
        """Whether the call has ended, even if callbacks were not notified."""
        return self.frame.over

    @property
    def in_steps(self) -> bool:
        """Whether the call is running steps, not a validation, a checkpoint or an epoch start."""
        return self.wall.part == "steps"

    @property
    def overhead_s(self) -> float:
        """Recurring overhead so far: processor time, and time at the ends of validations."""
        wrappers_s = WRAPPERS_S * self.executions
        return self.cost.recurring_s + self._sampler.cpu_s + self.output.writing_s + wrappers_s

    @property
    def startup_s(self) -> float:
        """One-time overhead, measured like `overhead_s`."""
        return self.cost.once_s + self.output.opening_s

    def on_window(self, phase: Phase, action: Callable[[StepWindow], None]) -> None:
        """Times a phase's steps, and calls an action with each finished window of steps."""
        self.steps_of(phase).watch(action)

    def on_first_step(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        """Calls actions right before and after the call's first step, even if the step raises."""
        self.first_step_hooks.before.append(before)
        self.first_step_hooks.after.append(after)
        self.on_window(self.phase, lambda window: None)

    def on_epoch_ended(self, action: Callable[[], None]) -> None:
        """Calls an action after each epoch's last callback has returned; it must not raise."""
        self._on_epoch_ended.append(action)

    def look_at_starts(self) -> None:
        """Reads what pipelines do that have not delivered a batch; called on another thread.

        Not in the first step: an operation of another thread would get a part of the step's graphs,
        which are collected then, and placement would be unknown.
        """
        if not self.executions:
            return
        for steps in tuple(self._phases.values()):
            if steps.pipeline is not None:
                steps.pipeline.poll()

    def every_second(self, reads: str, action: Callable[[], None]) -> int:
        """Calls an action about once a second, on another thread; returns its number."""
        return self._sampler.add(reads, action)

    def sampled_once(self, spent_s: float) -> None:
        """Counts processor time of the sampling thread as one-time overhead; called on it."""
        self._sampler.once_s += spent_s
        self.cost.add(spent_s, once=True)

    def watch_code(self, watch: CodeWatch) -> None:
        """Lets a watch see all stacks that are sampled during the call."""
        self._code_watches.append(watch)
        if self._stacks is not None:
            self._stacks.watch(watch)

    def line_times(self) -> StackTimes | None:
        """Returns the lines of Python that the call spent its time on; None before its start."""
        parts: tuple[StackPart, ...] = ("call", "step", "callback", "python")
        if self._stacks is None:
            return None
        return self._stacks.times(self._began_s, parts=parts, thread=self.frame.thread)

    def read_now(self, number: int) -> None:
        """Calls the action that `every_second` has registered under a number, on this thread."""
        self._sampler.call(number)

    def epoch_begins(self, epoch: int) -> None:
        """Notes that a callback is called at the start of an epoch; others may follow."""
        self.epoch = epoch + 1
        if not self._callback_list.sees_epochs:
            self.wall.switch("epoch start")

    def epoch_ends(self) -> None:
        """Notes that a callback is called at the end of an epoch, perhaps after others."""
        self._pause()
        self.wall.switch("callbacks", self._callback_list.epoch_ended_s)

    def validation_begins(self) -> None:
        """Notes that a validation inside `fit` begins."""
        self._pause()
        self.wall.switch("validation")

    def validation_ends(self) -> None:
        """Notes that a validation inside `fit` ended. Keras' remaining work on it counts, too."""
        by_callback = self.own_steps.is_between_epochs
        self.wall.switch("other" if by_callback else "validation")

    def leaves(self, phase: Phase) -> None:
        """Notes that a callback leaves at the end of a phase."""
        if phase == self.phase:
            self._sampler.stop()  # a reading must not follow the summary
            self.read_now(self._progress)
            self.wall.end()
            self.events.epoch_ends(self.epoch)  # in case the epoch was interrupted
        else:
            self.wall.switch("callbacks")

    def record_end(self) -> None:
        """Records how the call ended, once: without that, its process counts as killed."""
        if self.output.claim("the end"):
            errors = self.errors if self.ending == "interrupted" else None
            ended_by = (errors.last, errors.message, errors.line, errors.kind) if errors else ()
            self.output.record("end", RunEnd(self.ending, *ended_by), self.step)

    @property
    def own_steps(self) -> PhaseSteps:
        """Steps of the call itself."""
        return self._phases[self.phase]

    def steps_of(self, phase: Phase) -> PhaseSteps:
        """Returns the steps of a phase: the call itself, or a validation inside `fit`."""
        if phase not in self._phases:
            self._phases[phase] = PhaseSteps(self, phase)
        return self._phases[phase]

    @property
    def executions(self) -> int:
        """Number of executions so far, with those of validations."""
        return sum(steps.executions for steps in tuple(self._phases.values()))

    def close(self) -> None:
        """Restores the model, ends the threads, and forgets the call; may be called repeatedly."""
        self.record_end()
        for steps in self._phases.values():
            steps.restore()
        self._callback_list.close()
        self.events.close()
        self._retraced.close()
        self.first_step_hooks.close()
        self._sampler.stop()
        self._end_stacks()
        self.output.close()
        self.frame.forget()
        # References to the session, and cycles within it, must not keep the run's data alive.
        for steps in self._phases.values():
            steps.release()
        self._sampler.release()
        self.errors.clear()
        self._on_epoch_ended.clear()

    def _end_stacks(self) -> None:
        stacks, self._stacks = self._stacks, None
        if stacks is not None:
            for watch in (self._callback_list.times.between_steps, *self._code_watches):
                stacks.unwatch(watch)
            STACKS.release()
        self._code_watches.clear()

    def _epoch_began(self) -> None:
        self.own_steps.begin_epoch()
        self.wall.switch("epoch start")
        self.events.epoch_begins()

    def _epoch_ended(self) -> None:
        self.events.epoch_ends(self.epoch)
        for action in tuple(self._on_epoch_ended):
            action()

    def _pause(self) -> None:
        self.own_steps.pause(self._callback_list.batch_ended_s)
