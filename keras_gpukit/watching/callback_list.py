"""The list through which Keras calls all callbacks of a call: when it does, and what they raise.

Our own callback sees only its own turn. What others do before and after it, and the exception by
which one of them ends the call, are visible in the list alone.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from keras_gpukit.watching.replaced_attribute import ReplacedAttribute

# `on_train_begin` and its like are under way when ours is called.
_HOOKS = (
    "on_epoch_begin",
    "on_epoch_end",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_train_end",
    "on_test_begin",
    "on_test_batch_begin",
    "on_test_batch_end",
    "on_test_end",
    "on_predict_batch_begin",
    "on_predict_batch_end",
    "on_predict_end",
)
Hook = Callable[..., None]


class CallbackListWatch:
    """Watches the hooks of a call's callback list from `start` to `close`.

    Args:
        callback_list: A `keras.callbacks.CallbackList`; None where it cannot be known.
        on_error: Called with an exception that any callback raises.
        on_epoch_began: Called when the last callback has returned from `on_epoch_begin`, with
            Keras' number of the epoch, which counts from 0.
        on_epoch_ended: Called when the last callback has returned from `on_epoch_end`.

    Attributes:
        sees_epochs: Whether epochs are seen.
        epoch_ended_s: When the first callback was called at the latest epoch's end; None before.
    """

    def __init__(
        self,
        callback_list: Any,
        on_error: Callable[[BaseException], None],
        on_epoch_began: Callable[[int], None],
        on_epoch_ended: Callable[[], None],
    ) -> None:
        self.sees_epochs = callback_list is not None
        self.epoch_ended_s: float | None = None
        self._on_error = on_error
        self._on_epoch_began = on_epoch_began
        self._on_epoch_ended = on_epoch_ended
        self._hooks = (
            {name: ReplacedAttribute(callback_list, name) for name in _HOOKS}
            if self.sees_epochs
            else {}
        )

    def start(self) -> None:
        """Replaces the hooks."""
        for name, hook in self._hooks.items():
            hook.replace(self._watched(name, hook.current))

    def close(self) -> None:
        """Restores the hooks."""
        for hook in self._hooks.values():
            hook.restore()

    def _watched(self, name: str, hook: Hook) -> Hook:
        @functools.wraps(hook)
        def call(*args: Any, **kwargs: Any) -> None:
            try:
                hook(*args, **kwargs)
            except BaseException as error:
                self._on_error(error)
                raise

        @functools.wraps(hook)
        def epoch_begins(epoch: int, *args: Any, **kwargs: Any) -> None:
            call(epoch, *args, **kwargs)
            self._on_epoch_began(epoch)

        @functools.wraps(hook)
        def epoch_ends(*args: Any, **kwargs: Any) -> None:
            self.epoch_ended_s = time.perf_counter()
            call(*args, **kwargs)
            self._on_epoch_ended()

        if name == "on_epoch_begin":
            return epoch_begins
        return epoch_ends if name == "on_epoch_end" else call
