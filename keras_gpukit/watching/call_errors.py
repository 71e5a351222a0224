"""Reports the exceptions raised in a monitored call, and keeps the one that ended it."""

from __future__ import annotations

from collections.abc import Callable

from keras_gpukit.errors import Guard
from keras_gpukit.watching.error_place import kind_and_message, user_line


class CallErrors:
    """Passes each exception to the registered actions, once.

    Args:
        step: Returns the current global step.

    Attributes:
        last: Type and place of the last exception, such as "ValueError in step 1"; None if there
            was none.
        message: Message of that exception, in one line.
        line: Line of user code that it came from, such as "train.py:31"; None if unknown.
    """

    def __init__(self, step: Callable[[], int]) -> None:
        self.last: str | None = None
        self.message: str | None = None
        self.line: str | None = None
        self._step = step
        self._actions: list[Callable[[BaseException], None]] = []
        self._error: BaseException | None = None

    def add(self, action: Callable[[BaseException], None]) -> None:
        """Registers an action that is called with each exception."""
        self._actions.append(action)

    def of_step(self, error: BaseException) -> None:
        """Reports an exception of a step of the call itself."""
        self._tell(error, f"step {self._step() + 1:,}")  # a step that fails is not counted

    def of_validation(self, error: BaseException) -> None:
        """Reports an exception of a step of a validation inside `fit`."""
        self._tell(error, f"validation, after step {self._step():,}")

    def of_callback(self, error: BaseException) -> None:
        """Reports an exception of a callback."""
        self._tell(error, f"a callback, after step {self._step():,}")

    def ended_by(self, what: str, part: str) -> None:
        """Notes that something other than an exception ends the call, such as a signal.

        Args:
            what: Name of the signal.
            part: Activity of the call, as in `Progress`.
        """
        places = {"first step": "in the first step", "validation": "in a validation"}
        self.last = f"{what} {places.get(part, f'after step {self._step():,}')}"

    def clear(self) -> None:
        """Forgets the exception, which keeps the call's data alive, and all actions."""
        self._actions.clear()
        self._error = None
        self._step = _no_steps

    def _tell(self, error: BaseException, where: str) -> None:
        if error is self._error:
            return  # a step's exception passes through the callback that ran the step
        self._error = error
        self.last = f"{type(error).__name__} in {where}"
        with Guard("Reading an error", "Its message is not reported."):
            kind, self.message = kind_and_message(error)
            self.last, self.line = f"{kind} in {where}", user_line(error)
        for action in tuple(self._actions):
            with Guard("Reading an error", "It is not reported."):
                action(error)


def _no_steps() -> int:
    return 0
