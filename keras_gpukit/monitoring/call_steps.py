"""Yields windows of the steps of a monitored call, and follows what the call does between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.input.wait.calls import steps_so_far
from keras_gpukit.input.wait.clock import OwnCost
from keras_gpukit.input.wait.wall_time import WallTime
from keras_gpukit.monitoring.call_errors import CallErrors
from keras_gpukit.monitoring.call_frame import CallFrame, callback_list
from keras_gpukit.monitoring.callback_list import CallbackListWatch
from keras_gpukit.monitoring.phase_steps import PhaseSteps
from keras_gpukit.monitoring.retraced_functions import RetracedFunctions
from keras_gpukit.monitoring.run_output import RunOutput
from keras_gpukit.records.steps import Part, Phase, StepWindow, TimeBreakdown
from keras_gpukit.sensors.stack_parts import CodeWatch


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


class CallSteps:
    """Times the steps of a call and of validations in it, with one clock around each step function.

    Attributes:
        first_step: Number of the model's steps before the call.
        epoch: Number of the current epoch, from 1; None before the first epoch and outside `fit`.
        frame: Stack frame of the call.
        errors: Reports the exceptions of steps and callbacks. Those raised elsewhere, such as when
            Keras makes an iterator of the data, are unknown.
        wall: Assigns each moment of the call to a part of it.
    """

    def __init__(
        self,
        model: Any,
        phase: Phase,
        output: RunOutput,
        cost: OwnCost,
        suspended_since: Callable[[float], bool],
    ) -> None:
        self.model, self.phase, self.output, self.cost = model, phase, output, cost
        self.suspended_since = suspended_since
        self.first_step = steps_so_far(model)
        self.epoch: int | None = None
        self.frame = CallFrame(phase)
        self.errors = CallErrors(lambda: self.step, lambda: self.epoch, self.first_step)
        self._callbacks = CallbackListWatch(
            callback_list(phase),
            self.errors.of_callback,
            self._epoch_began,
            lambda: self.own.end_epoch(),
            self._epoch_ended,
        )
        self._retraced = retraced = RetracedFunctions(
            lambda spent_s: self.wall.note_tracing(spent_s)
        )
        times = self._callbacks.times

        def completed(parts: TimeBreakdown, between_s: float) -> TimeBreakdown:
            return replace(
                parts,
                by_callback=times.by_class(parts.wall_s, between_s),
                callbacks_at_epochs=dict(times.at_epochs_s),
                callbacks_by_thirds=times.by_thirds(),
                retraced=retraced.functions(),
            )

        first: Part = "callbacks" if phase == "fit" else "epoch start"
        self.wall = WallTime(first, on_part=output.part_ended, completed=completed)
        self.first_step_hooks = FirstStepHooks(cost)
        self._on_epoch_ended: list[Callable[[], None]] = []
        # The steps of the call itself are needed now: the sampling thread reads the global step.
        self._phases = {phase: PhaseSteps(self, phase)}

    def start(self) -> None:
        """Starts to watch the callbacks and the tracings of the call."""
        self._callbacks.start()
        self._retraced.start()

    @property
    def step(self) -> int:
        """Global step."""
        return self.own.step

    @property
    def in_steps(self) -> bool:
        """Whether the call is running steps, not a validation, a checkpoint or an epoch start."""
        return self.wall.part == "steps"

    @property
    def own(self) -> PhaseSteps:
        """Steps of the call itself."""
        return self._phases[self.phase]

    def of(self, phase: Phase) -> PhaseSteps:
        """Returns the steps of a phase: the call itself, or a validation inside `fit`."""
        if phase not in self._phases:
            self._phases[phase] = PhaseSteps(self, phase)
        return self._phases[phase]

    @property
    def executions(self) -> int:
        """Number of executions so far, with those of validations."""
        return sum(steps.executions for steps in tuple(self._phases.values()))

    @property
    def between_steps(self) -> CodeWatch:
        """Watch for the callbacks that run between steps, to be shown sampled stacks."""
        return self._callbacks.times.between_steps

    def on_window(self, phase: Phase, action: Callable[[StepWindow], None]) -> None:
        """Times a phase's steps, and calls an action with each finished window of steps."""
        self.of(phase).watch(action)

    def on_first_step(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        """Calls actions right before and after the call's first step, even if the step raises."""
        self.first_step_hooks.before.append(before)
        self.first_step_hooks.after.append(after)
        self.on_window(self.phase, lambda window: None)

    def on_epoch_ended(self, action: Callable[[], None]) -> None:
        """Calls an action after each epoch's last callback has returned; it must not raise."""
        self._on_epoch_ended.append(action)

    def poll_pipelines(self) -> None:
        """Reads what pipelines do that have not delivered a batch; called on another thread.

        Not in the first step, whose graphs are collected for the placement: an operation of another
        thread may be counted as one of the step.
        """
        if not self.executions:
            return
        for steps in tuple(self._phases.values()):
            if steps.pipeline is not None:
                steps.pipeline.poll()

    def epoch_begins(self, epoch: int) -> None:
        """Notes that a callback is called at the start of an epoch; others may follow."""
        self.epoch = epoch + 1
        if not self._callbacks.sees_epochs:
            self.wall.switch("epoch start")

    def epoch_ends(self) -> None:
        """Notes that a callback is called at the end of an epoch, perhaps after others."""
        self._pause()
        self.wall.switch("callbacks", self._callbacks.epoch_ended_s)

    def validation_begins(self) -> None:
        """Notes that a validation inside `fit` begins."""
        self._pause()
        self.wall.switch("validation")

    def validation_ends(self) -> None:
        """Notes that a validation inside `fit` ended. Keras' remaining work on it counts, too."""
        by_callback = self.own.is_between_epochs
        self.wall.switch("other" if by_callback else "validation")

    def close(self) -> None:
        """Restores the model and the callbacks; may be called repeatedly."""
        for steps in self._phases.values():
            steps.restore()
        self._callbacks.close()
        self._retraced.close()
        self.first_step_hooks.close()

    def release(self) -> None:
        """Forgets the call: no reference to it, or cycle in it, may keep its data alive."""
        self.frame.forget()
        for steps in self._phases.values():
            steps.release()
        self.errors.clear()
        self._on_epoch_ended.clear()

    def _epoch_began(self) -> None:
        self.own.begin_epoch()
        self.wall.switch("epoch start")
        self.output.epoch_began()

    def _epoch_ended(self) -> None:
        self.output.epoch_ended(self.epoch)
        for action in tuple(self._on_epoch_ended):
            action()

    def _pause(self) -> None:
        self.own.pause(self._callbacks.batch_ended_s)
