"""Replaces a callable attribute of a Keras object by wrappers, and restores it."""

from __future__ import annotations

from typing import Any, Literal

Outcome = Literal["restored", "wrapped", "replaced"]

# Attribute of a wrapper that could not be removed: the function that it had replaced.
LEFT = "gpukit_left"


class ReplacedAttribute:
    """Replaces a callable attribute by wrappers, and restores it."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name
        self._was_own = name in vars(owner)
        # The value before the first wrapper, and the wrappers; empty if there are none.
        self._values: tuple[Any, ...] = ()

    @property
    def original(self) -> Any:
        """Value of the attribute before the first wrapper; None if there is no wrapper."""
        return self._values[0] if self._values else None

    @property
    def current(self) -> Any:
        """Function that Keras calls now; None if it is not set yet."""
        return getattr(self._owner, self._name, None)

    @property
    def is_replaced(self) -> bool:
        """Whether a wrapper is in place that must be removed later."""
        return bool(self._values)

    @property
    def is_ours(self) -> bool:
        """Whether Keras calls our latest wrapper directly."""
        return bool(self._values) and self.current is self._values[-1]

    @property
    def is_lost(self) -> bool:
        """Whether the attribute was set to a function that does not call our latest wrapper."""
        return bool(self._values) and not _is_within(self._values[-1], self.current)

    def replace(self, wrapper: Any) -> None:
        """Sets the attribute to a wrapper, so that Keras calls it."""
        # Noted before it is set, so that it is found and removed if an interrupt comes.
        self._values = (*(self._values or (self.current,)), wrapper)
        self._set(wrapper)

    def restore(self) -> Outcome:
        """Restores the original, unless other code has wrapped or replaced the attribute since."""
        outcome: Outcome = "restored"
        original, current = self.original, self.current
        if any(current is value for value in self._values[1:]):
            # Also removes wrappers below ours that other sessions had to leave in place.
            while hasattr(original, LEFT):
                original = getattr(original, LEFT)
            if self._was_own:
                self._set(original)
            else:
                object.__delattr__(self._owner, self._name)  # the class has the original
        elif self._values and current is not original:
            # Other code keeps a reference to the wrapper, so it cannot be removed.
            setattr(self._values[-1], LEFT, original)
            outcome = "wrapped" if _is_within(self._values[-1], current) else "replaced"
        # Reset last, so that `restore` can be repeated if an interrupt comes.
        self._values = ()
        return outcome

    def _set(self, function: Any) -> None:
        # `Model.__setattr__` would look for layers and variables in the value.
        object.__setattr__(self._owner, self._name, function)


def _is_within(function: Any, wrapping: Any) -> bool:
    """Whether a function is the given wrapper, or is called by it."""
    while wrapping is not None and wrapping is not function:
        wrapping = getattr(wrapping, "__wrapped__", None)
    return wrapping is function
