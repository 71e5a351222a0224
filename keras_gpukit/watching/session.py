"""What all callbacks that watch one call of `fit`, `evaluate` or `predict` share.

One clock around each step function, one writer thread, one sampling thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_gpukit.distribute.clusters.tf_config import this_worker
from keras_gpukit.input_wait.self_cost import StepFunction
from keras_gpukit.input_wait.wall_time import Part, WallTime
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.names import SETUP
from keras_gpukit.records.run import Ending
from keras_gpukit.records.steps import Phase, StepWindow
from keras_gpukit.sensors.heartbeat import Heartbeat
from keras_gpukit.sensors.sampling import SamplingThread
from keras_gpukit.watching.call_errors import CallErrors
from keras_gpukit.watching.call_frame import CallFrame, callback_list
from keras_gpukit.watching.callback_list import CallbackListWatch
from keras_gpukit.watching.environment import environment_markdown, read_environment
from keras_gpukit.watching.finished_iterators import FinishedIterators
from keras_gpukit.watching.first_step import FirstStepHooks
from keras_gpukit.watching.phase_steps import PhaseSteps
from keras_gpukit.watching.progress import ProgressNotes
from keras_gpukit.watching.run_events import RunEventNotes
from keras_gpukit.watching.run_output import RunOutput
from keras_gpukit.watching.step_count import steps_so_far

SAMPLE_EVERY_S = 1.0


class Session:
    """One watched call, as the callbacks that share it see it.

    Args:
        model: The model that is run.
        log_dir: Where the run is written, or None.
        phase: What is run.

    Attributes:
        wall: Where the call's time goes.
        ending: How the call ended.
        errors: The exceptions of its steps and callbacks.
        first_step: Global step before the call.
        output: Takes figures and records.
        epoch: The epoch under way, counted from 1; None before the first, and outside `fit`.
    """

    def __init__(self, model: Any, log_dir: Path | None, phase: Phase) -> None:
        self.model = model
        self.output = RunOutput(log_dir)
        self.phase = phase
        self.ending: Ending = "completed"
        self.first_step = steps_so_far(model)
        self.epoch: int | None = None
        self._events = RunEventNotes(model, self.output.record, lambda: self.step)
        begins_with: Part = "callbacks" if phase == "fit" else "epoch start"
        self.wall = WallTime(begins_with, on_part=self._events.part)
        self._frame = CallFrame(phase)
        self.errors = CallErrors(lambda: self.step)
        self._callback_list = CallbackListWatch(
            callback_list(phase),
            self.errors.of_callback,
            self._epoch_began,
            lambda: self.own_steps.watched.end_epoch(),
            self._epoch_ended,
        )
        self.wall.by_callback = self._callback_list.times.by_class
        self._sampler = SamplingThread(SAMPLE_EVERY_S)
        self._heartbeat = Heartbeat(SAMPLE_EVERY_S, on_stop=self._events.stood_still)
        self._first_step_hooks = FirstStepHooks()
        self._finished_iterators = FinishedIterators()
        self._on_epoch_ended: list[Callable[[], None]] = []
        self._recurring_s = 0.0
        self._once_s = 0.0
        # The call's own now: the sampling thread asks for its step.
        self._phases = {phase: self._make_steps(phase)}
        self.every_second("whether the process stood still", self._heartbeat.beat)
        self.every_second("which callback is under way", self._callback_list.times.look)
        params = getattr(callback_list(phase), "params", None)
        self.every_second("what the run is doing", ProgressNotes(self, params).note)

    def start(self) -> None:
        """Starts the threads. The session can be found and closed before this."""
        self._callback_list.start()
        self._events.start()
        self.output.start(this_worker(self.model))
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
        """Whether the call has ended, though callbacks may not have been told."""
        return self._frame.over

    @property
    def in_steps(self) -> bool:
        """Whether the call is at its steps: not at a validation, a checkpoint or a start."""
        return self.wall.part == "steps"

    @property
    def overhead_s(self) -> float:
        """Recurring overhead so far: training thread time, and processor time alongside it."""
        timing_s = sum(steps.recurring_s for steps in self._phases.values())
        return self._recurring_s + self._sampler.cpu_s + self.output.writing_s + timing_s

    @property
    def startup_s(self) -> float:
        """Overhead that came once, in the same measure."""
        timing_s = sum(steps.startup_s for steps in self._phases.values())
        return self._once_s + self._first_step_hooks.spent_s + timing_s + self.output.opening_s

    def add_cost(self, spent_s: float, *, once: bool) -> None:
        """Counts time that a callback spent on the training thread."""
        if once:
            self._once_s += spent_s
        else:
            self._recurring_s += spent_s

    def write_environment(self) -> None:
        """Writes the run's versions, devices and settings."""
        self.output.record("environment", self.environment, self.step)
        self.output.values(self.step, {SETUP: environment_markdown(self.environment)})

    def on_window(self, phase: Phase, action: Callable[[StepWindow], None]) -> None:
        """Has a phase's steps timed, and calls with each finished window of them."""
        self.steps_of(phase).watch(action)

    def around_steps(
        self,
        around: Callable[[StepFunction], StepFunction],
        alone: Callable[[StepFunction], StepFunction],
        on_pause: Callable[[], None],
    ) -> None:
        """Puts something around each step of the call; see `PhaseSteps.surround`."""
        self.own_steps.surround(around, alone, on_pause)

    def on_first_step(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        """Calls right before and after the first step of the call, also if the step raises."""
        self._first_step_hooks.before.append(before)
        self._first_step_hooks.after.append(after)
        self.on_window(self.phase, lambda window: None)

    def on_error(self, action: Callable[[BaseException], None]) -> None:
        """Calls with the exception by which a step or a callback ends the call.

        What is raised elsewhere, as when Keras makes an iterator of the data, is not known.
        """
        self.errors.add(action)

    def on_epoch_ended(self, action: Callable[[], None]) -> None:
        """Calls after each epoch, when the last callback has returned; must not raise."""
        self._on_epoch_ended.append(action)

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

    @property
    def follows_device(self) -> bool:
        """Whether `note_finished` is of use: the device works behind the step function."""
        return self.own_steps.follows_device

    def note_finished(self, phase: Phase, by: object) -> None:
        """The results of a phase's next step are there; any thread may say so.

        Args:
            phase: What the step belongs to.
            by: The callback that reports it.
        """
        if phase in self._phases:
            self._phases[phase].note_finished(by)

    def epoch_begins(self, epoch: int) -> None:
        """A callback is called at the begin of an epoch; others may follow.

        Args:
            epoch: Keras' number of the epoch, which counts from 0.
        """
        self.epoch = epoch + 1
        if not self._callback_list.sees_epochs:
            self.wall.turn("epoch start")

    def epoch_ends(self) -> None:
        """A callback is called at the end of an epoch; others may have been before."""
        self._pause()
        self.wall.turn("callbacks", self._callback_list.epoch_ended_s)

    def validation_begins(self) -> None:
        """A validation inside `fit` begins."""
        self._pause()
        self.wall.turn("validation")

    def validation_ends(self) -> None:
        """A validation inside `fit` ended; what Keras still does for it is part of it."""
        by_callback = self.own_steps.watched.is_between_epochs
        self.wall.turn("other" if by_callback else "validation")

    def leaves(self, phase: Phase) -> None:
        """A callback leaves at the end of a phase."""
        if phase == self.phase:
            self._sampler.stop()  # a reading must not follow the summary
            self.wall.end()
            self._events.epoch_ends(self.epoch)  # it was interrupted
        else:
            self.wall.turn("callbacks")

    def end_phase(self, phase: Phase) -> None:
        """A phase is over: its last window ends, and its step function is restored."""
        self.steps_of(phase).restore()

    @property
    def own_steps(self) -> PhaseSteps:
        """The steps of the call itself."""
        return self._phases[self.phase]

    def steps_of(self, phase: Phase) -> PhaseSteps:
        """The steps of a phase: of the call itself, or of a validation inside `fit`."""
        if phase not in self._phases:
            self._phases[phase] = self._make_steps(phase)
        return self._phases[phase]

    def close(self) -> None:
        """Restores the model, ends the threads, and forgets the call; may be called again."""
        for steps in self._phases.values():
            steps.restore()
        self._callback_list.close()
        self._events.close()
        self._first_step_hooks.close()
        self._sampler.stop()
        self.output.close()
        self._frame.forget()
        # References to the session, and cycles within it, must not keep the run's data alive.
        for steps in self._phases.values():
            steps.release()
        self._finished_iterators.release()
        self._sampler.release()
        self.errors.clear()
        self._on_epoch_ended.clear()

    def _make_steps(self, phase: Phase) -> PhaseSteps:
        own = phase == self.phase
        return PhaseSteps(
            self.model,
            phase,
            self.first_step,
            on_window=lambda window: self.output.record("steps", window, window.step),
            on_error=self.errors.of_step if own else self.errors.of_validation,
            stood_still_since=self._heartbeat.stopped_since,
            frame=self._frame,
            wall=self.wall if own else None,
            finished=self._finished_iterators,
            first_call=self._first_step_hooks if own else None,
        )

    def _epoch_began(self) -> None:
        self.own_steps.watched.follow()
        self.wall.turn("epoch start")
        self._events.epoch_begins()

    def _epoch_ended(self) -> None:
        self._events.epoch_ends(self.epoch)
        for action in tuple(self._on_epoch_ended):
            action()

    def _pause(self) -> None:
        self.wall.batch_ended_s = self._callback_list.batch_ended_s
        self.own_steps.pause()
