"""A model's step function while wrappers replace it, and its restoration."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Literal

from keras_gpukit.errors import GPUKitError
from keras_gpukit.input_wait.self_cost import StepFunction
from keras_gpukit.records.steps import Phase

# The model's attribute that holds each phase's step function.
ATTRIBUTES: dict[Phase, str] = {
    "fit": "train_function",
    "evaluate": "test_function",
    "predict": "predict_function",
}

# Attribute of a wrapper that its session left in place: what it had replaced.
LEFT = "gpukit_left"


class WrappedStepFunction:
    """Replaces a model's step function, and puts it back.

    Args:
        model: The model that is run.
        phase: What the step function belongs to.
    """

    def __init__(self, model: Any, phase: Phase) -> None:
        self._model = model
        self._attribute = ATTRIBUTES[phase]
        self._original: Any = None
        self._wrappers: list[Any] = []

    @property
    def current(self) -> Any:
        """The step function that Keras calls now; None before it made one."""
        return getattr(self._model, self._attribute, None)

    @property
    def is_wrapped(self) -> bool:
        """Whether a wrapper is to be removed."""
        return bool(self._wrappers)

    @property
    def within(self) -> StepFunction:
        """What the latest wrapper calls.

        Raises:
            GPUKitError: If the latest wrapper is not what Keras calls.
        """
        if not self._wrappers or self.current is not self._wrappers[-1]:
            raise GPUKitError("the step function is not Keras' own, or other code replaced it")
        inside: StepFunction = getattr(self._wrappers[-1], "__wrapped__", self._original)
        return inside

    def replace(self, wrapper: Any) -> None:
        """Has Keras call a wrapper."""
        if not self._wrappers:
            self._original = self.current
        # Noted before it is put in place: should an interrupt come, it is found and removed.
        self._wrappers.append(wrapper)
        setattr(self._model, self._attribute, wrapper)

    def restore(self) -> Literal["restored", "wrapped", "replaced"]:
        """Puts the original back, unless other code has wrapped or replaced the function since."""
        outcome: Literal["restored", "wrapped", "replaced"] = "restored"
        original, current = self._original, self.current
        if any(current is each for each in self._wrappers):
            # What another session put underneath and has left since goes too.
            while hasattr(original, LEFT):
                original = getattr(original, LEFT)
            setattr(self._model, self._attribute, original)
        elif self._wrappers and current is not original:
            # Its owner keeps it.
            setattr(self._wrappers[-1], LEFT, original)
            outcome = "wrapped" if _is_within(self._wrappers[-1], current) else "replaced"
        # Only now: should an interrupt come, this is repeated.
        self._original, self._wrappers = None, []
        return outcome


def only_for(
    accepts: Callable[[Any], bool], surrounded: StepFunction, inside: StepFunction
) -> StepFunction:
    """Returns a step function that surrounds the steps of accepted iterators only.

    Args:
        accepts: Whether steps fed from an iterator are to be surrounded; asked once for each.
        surrounded: Runs those.
        inside: Runs the others.
    """
    latest: weakref.ref[Any] | None = None

    @functools.wraps(surrounded)
    def choose(iterator: Any) -> Any:
        nonlocal latest
        if latest is None or iterator is not latest():
            if not accepts(iterator):
                return inside(iterator)
            latest = weakref.ref(iterator)
        return surrounded(iterator)

    return choose


def _is_within(function: Any, wrapping: Any) -> bool:
    """Whether a function is called by another one, or is that one."""
    while wrapping is not None and wrapping is not function:
        wrapping = getattr(wrapping, "__wrapped__", None)
    return wrapping is function
