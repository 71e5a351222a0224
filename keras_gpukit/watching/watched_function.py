"""A step function while it is timed: wrapped, surrounded, followed and restored."""

from __future__ import annotations

from collections.abc import Callable

from keras_gpukit.errors import GPUKitError
from keras_gpukit.input_wait.clock import StepClock
from keras_gpukit.input_wait.request_meter import RequestMeter
from keras_gpukit.input_wait.self_cost import StepFunction, cost_of_a_call_s
from keras_gpukit.watching.callback_list import hooks_alone
from keras_gpukit.watching.replaced_attribute import ReplacedAttribute

REPLACED = "the step function was replaced while it was watched"
Around = Callable[[StepFunction], StepFunction]


class WatchedFunction:
    """Has a clock around a step function, and whatever else is put around each step.

    Args:
        function: The model's attribute.
        clock: Times the calls.

    Attributes:
        is_between_epochs: Whether the steps of an epoch are over, and those of the next to come.
    """

    def __init__(self, function: ReplacedAttribute, clock: StepClock) -> None:
        self._function = function
        self._clock = clock
        self._around: list[Around] = []
        self._around_alone: list[Around] = [hooks_alone]
        self.is_between_epochs = False

    @property
    def recurring_s(self) -> float:
        """What timing costs again and again, so far, and what else is around each step."""
        around_s = sum(cost_of_a_call_s(each) for each in self._around_alone)
        return self._clock.recurring_s + self._clock.calls * around_s

    def wrap(self, requests: RequestMeter | None) -> None:
        """Has each call timed.

        Args:
            requests: Times the fetches of `predict`, which come before each call; else None.
        """
        step_function = self._function.current
        if step_function is None:
            # A loop in user code drives the callbacks. Wrapped, it would look made to Keras.
            self._clock.waits.unknown_because = (
                "Keras had not made the step function when the run began"
            )
        elif requests is not None:
            self._function.replace(self._clock.wrap_batches(step_function, requests))
        else:
            self._function.replace(self._clock.wrap(step_function))

    def surround(self, around: Around, alone: Around) -> None:
        """Puts something around each step, within its clock; see `PhaseSteps.surround`.

        Raises:
            GPUKitError: If there is no step function that can be put back afterwards.
        """
        if not self._function.is_ours:
            raise GPUKitError("the step function is not Keras' own, or other code replaced it")
        surrounded = around(self._function.current.__wrapped__)
        self._around.append(around)
        self._around_alone.append(alone)
        self._function.replace(self._clock.wrap(surrounded, self._function.original))

    def end_epoch(self) -> None:
        """The steps of an epoch are over; until `follow` there are none."""
        if self._function.is_lost:
            self._clock.stop(REPLACED)
        self.is_between_epochs = True

    def follow(self) -> None:
        """Wraps the step function that was made between two epochs, if it was; it will trace."""
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
        """Puts the step function back."""
        outcome = self._function.restore()
        if outcome == "wrapped":
            self._clock.leave()
        elif outcome == "replaced" and not self.is_between_epochs:
            self._clock.stop(REPLACED)

    def release(self) -> None:
        """Forgets what was put around the steps."""
        self._around.clear()
        self._around_alone.clear()
