"""Watches the list through which Keras calls all callbacks: when they run and what they raise.

Our own callback sees only its own hooks. Only the list shows what other callbacks do before and
after it, and the exception by which one of them ends the call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from keras_gpukit.watching.callback_times import CallbackTimes
from keras_gpukit.watching.replaced_attribute import ReplacedAttribute

# `on_train_begin` and `on_predict_begin` are already running when our callback is called.
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


def _nothing(*args: Any) -> None:
    pass


class CallbackListWatch:
    """Watches the hooks of a callback list from `start` to `close`.

    Args:
        callback_list: The `keras.callbacks.CallbackList` of the call; None if unknown.
        on_error: Called with each exception that a callback raises.
        on_epoch_began: Called after the last callback's `on_epoch_begin`.
        on_epoch_ends: Called before the first callback's `on_epoch_end`.
        on_epoch_ended: Called after the last callback's `on_epoch_end`.

    Attributes:
        sees_epochs: Whether the starts and ends of epochs are visible.
        times: Time that each callback takes.
        epoch_ended_s: When the callbacks of the latest epoch's end started, in seconds of
            `time.perf_counter`; None before the first epoch has ended.
        batch_ended_s: When the last callback returned from the latest batch hook, in seconds of
            `time.perf_counter`; 0 before the first batch.
    """

    def __init__(
        self,
        callback_list: Any,
        on_error: Callable[[BaseException], None],
        on_epoch_began: Callable[[], None],
        on_epoch_ends: Callable[[], None],
        on_epoch_ended: Callable[[], None],
    ) -> None:
        self.sees_epochs = callback_list is not None
        self.epoch_ended_s: float | None = None
        self.batch_ended_s = 0.0
        self._on_error = on_error
        self._on_epoch_began = on_epoch_began
        self._on_epoch_ends = on_epoch_ends
        self._on_epoch_ended = on_epoch_ended
        self.times = CallbackTimes(callback_list, threading.get_ident())
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
        """Restores the hooks, and forgets all listeners; may be called repeatedly."""
        for hook in self._hooks.values():
            hook.restore()
        self._on_error = _nothing
        self._on_epoch_began = self._on_epoch_ends = self._on_epoch_ended = _nothing

    def _watched(self, name: str, hook: Hook) -> Hook:
        now = time.perf_counter
        if name in ("on_epoch_begin", "on_epoch_end"):
            hook = self.times.timed(hook)

        def call(*args: Any, **kwargs: Any) -> None:
            try:
                hook(*args, **kwargs)
            except BaseException as error:
                self._on_error(error)
                raise

        # Every step runs through this function, so each additional object adds overhead.
        def at_batch(batch: int, logs: Any = None) -> None:
            try:
                hook(batch, logs)
            except BaseException as error:
                self._on_error(error)
                raise
            self.batch_ended_s = now()

        def epoch_begins(*args: Any, **kwargs: Any) -> None:
            call(*args, **kwargs)
            self._on_epoch_began()

        def epoch_ends(*args: Any, **kwargs: Any) -> None:
            self.epoch_ended_s = now()
            self._on_epoch_ends()
            call(*args, **kwargs)
            self._on_epoch_ended()

        if name == "on_epoch_begin":
            return epoch_begins
        if name == "on_epoch_end":
            return epoch_ends
        return at_batch if "_batch_" in name else call
