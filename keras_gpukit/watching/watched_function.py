"""Wraps a step function to time it, follows it if Keras makes a new one, and restores it."""

from __future__ import annotations

from collections.abc import Callable

from keras_gpukit.errors import GPUKitError
from keras_gpukit.input.wait.clock import StepClock
from keras_gpukit.input.wait.request_meter import RequestMeter
from keras_gpukit.input.wait.self_cost import StepFunction, cost_of_a_call_s
from keras_gpukit.watching.callback_list import hooks_alone
from keras_gpukit.watching.replaced_attribute import ReplacedAttribute

REPLACED = "the step function was replaced while it was monitored"
Around = Callable[[StepFunction], StepFunction]


class WatchedFunction:
    """Wraps a step function in a clock, and each step in further functions inside the clock.

    Args:
        function: Attribute of the model that holds the step function.
        clock: Times the calls.

    Attributes:
        is_between_epochs: Whether the steps of an epoch are over and the next has not started.
    """

    def __init__(self, function: ReplacedAttribute, clock: StepClock) -> None:
        self._function = function
        self._clock = clock
        self._around: list[Around] = []
        self._around_alone: list[Around] = [hooks_alone]
        self.is_between_epochs = False

    @property
    def recurring_s(self) -> float:
        """Recurring overhead so far of timing and of all other wrappers around each step."""
        around_s = sum(cost_of_a_call_s(each) for each in self._around_alone)
        return self._clock.recurring_s + self._clock.calls * around_s

    def wrap(self, requests: RequestMeter | None) -> None:
        """Starts to time each call.

        Args:
            requests: Times the fetches of `predict`, which happen before each call; None for other
                phases.
        """
        step_function = self._function.current
        if step_function is None:
            # A loop in user code drives the callbacks. If we set a wrapper, Keras would take it for
            # a finished step function.
            self._clock.waits.unknown_because = (
                "Keras had not made the step function when the run began"
            )
        elif requests is not None:
            self._function.replace(self._clock.wrap_batches(step_function, requests))
        else:
            self._function.replace(self._clock.wrap(step_function))

    def surround(self, around: Around, alone: Around) -> None:
        """Wraps each step in another function, inside the clock; see `PhaseSteps.surround`.

        Raises:
            GPUKitError: If there is no step function that can be restored afterwards.
        """
        if not self._function.is_ours:
            raise GPUKitError("the step function is not Keras' own, or other code replaced it")
        surrounded = around(self._function.current.__wrapped__)
        self._around.append(around)
        self._around_alone.append(alone)
        self._function.replace(self._clock.wrap(surrounded, self._function.original))

    def end_epoch(self) -> None:
        """Notes that the steps of an epoch are over; none run until `follow`."""
        if self._function.is_lost:
            self._clock.stop(REPLACED)
        self._clock.windows.end_epoch()
        self.is_between_epochs = True

    def follow(self) -> None:
        """Wraps the step function that was made between two epochs, if any; it will be traced."""
        self.is_between_epochs = False
        made = self._function.current
        if made is None or not self._function.is_lost:
            return
        self._clock.will_trace = self._function.restore() == "replaced"
        surrounded = made
        for around in self._around:
            surrounded = around(surrounded)
        self._function.replace(self._clock.wrap(surrounded, made))

    def restore(self) -> None:
        """Restores the step function."""
        outcome = self._function.restore()
        if outcome == "wrapped":
            self._clock.leave()
        elif outcome == "replaced" and not self.is_between_epochs:
            self._clock.stop(REPLACED)

    def release(self) -> None:
        """Forgets all wrappers around the steps."""
        self._around.clear()
        self._around_alone.clear()
