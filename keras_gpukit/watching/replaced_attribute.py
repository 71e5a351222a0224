"""An attribute of an object in Keras while wrappers replace it, and its restoration."""

from __future__ import annotations

from typing import Any, Literal

Outcome = Literal["restored", "wrapped", "replaced"]

# Attribute of a wrapper that was left in place: what it had replaced.
LEFT = "gpukit_left"


class ReplacedAttribute:
    """Replaces a callable attribute, and puts it back.

    Args:
        owner: The object.
        name: The attribute.
    """

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name
        self._was_own = name in vars(owner)
        self.original: Any = None
        """What was there before the first wrapper, while there is one."""
        self._wrappers: list[Any] = []

    @property
    def current(self) -> Any:
        """What Keras calls now; None before there is anything."""
        return getattr(self._owner, self._name, None)

    @property
    def is_replaced(self) -> bool:
        """Whether a wrapper is to be removed."""
        return bool(self._wrappers)

    @property
    def is_ours(self) -> bool:
        """Whether Keras calls the latest wrapper itself."""
        return bool(self._wrappers) and self.current is self._wrappers[-1]

    @property
    def is_lost(self) -> bool:
        """Whether the attribute's owner put something else in the wrapper's place."""
        return bool(self._wrappers) and not _is_within(self._wrappers[-1], self.current)

    def replace(self, wrapper: Any) -> None:
        """Has Keras call a wrapper."""
        if not self._wrappers:
            self.original = self.current
        # Noted before it is put in place: should an interrupt come, it is found and removed.
        self._wrappers.append(wrapper)
        self._set(wrapper)

    def restore(self) -> Outcome:
        """Puts the original back, unless other code has wrapped or replaced the attribute since."""
        outcome: Outcome = "restored"
        original, current = self.original, self.current
        if any(current is each for each in self._wrappers):
            # What another session put underneath and has left since goes too.
            while hasattr(original, LEFT):
                original = getattr(original, LEFT)
            if self._was_own:
                self._set(original)
            else:
                object.__delattr__(self._owner, self._name)  # the class's
        elif self._wrappers and current is not original:
            # Its owner keeps it.
            setattr(self._wrappers[-1], LEFT, original)
            outcome = "wrapped" if _is_within(self._wrappers[-1], current) else "replaced"
        # Only now: should an interrupt come, this is repeated.
        self.original, self._wrappers = None, []
        return outcome

    def _set(self, function: Any) -> None:
        # A model's own way looks for layers and variables in what it is given.
        object.__setattr__(self._owner, self._name, function)


def _is_within(function: Any, wrapping: Any) -> bool:
    """Whether a function is called by another one, or is that one."""
    while wrapping is not None and wrapping is not function:
        wrapping = getattr(wrapping, "__wrapped__", None)
    return wrapping is function
