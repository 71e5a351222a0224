"""Measures how much time the callbacks of a call take, per class.

At the start and end of epochs, Keras' loop over the callbacks is timed. Between steps, timing would
add too much overhead, so the sampling thread looks which callback is running.
"""

from __future__ import annotations

import functools
import sys
import time
from collections import Counter, UserList, defaultdict
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from keras_gpukit.sensors.interpreter import DEEPEST

_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


class _TimedList(UserList[Any]):
    """Callbacks that are timed while Keras iterates over them.

    The list is a view of Keras' own list: callbacks added to one are added to the other.
    """

    def __init__(self, callbacks: list[Any], spent_s: defaultdict[str, float]) -> None:
        super().__init__()
        self.data = callbacks
        self._spent_s = spent_s

    def __iter__(self) -> Iterator[Any]:
        for callback in self.data:
            began_s = time.perf_counter()
            yield callback
            self._spent_s[type(callback).__name__] += time.perf_counter() - began_s


class CallbackTimes:
    """Adds up the time of each class of callbacks.

    Args:
        callback_list: The `keras.callbacks.CallbackList` of the call; None if unknown.
        thread: Identifier of the training thread.

    Attributes:
        at_epochs_s: Seconds of each class at the start and the end of epochs.
    """

    def __init__(self, callback_list: Any, thread: int) -> None:
        self._list = callback_list
        self._thread = thread
        self.at_epochs_s: defaultdict[str, float] = defaultdict(float)
        self._seen: Counter[str] = Counter()
        self._looks = 0
        self._names = {} if callback_list is None else _names_by_code(callback_list.callbacks)

    def timed(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Wraps `on_epoch_begin` or `on_epoch_end` of the list, so that it times each callback."""

        @functools.wraps(hook)
        def call(*args: Any, **kwargs: Any) -> None:
            callbacks = self._list.callbacks
            timed = self._list.callbacks = _TimedList(callbacks, self.at_epochs_s)
            try:
                hook(*args, **kwargs)
            finally:
                if self._list.callbacks is timed:
                    self._list.callbacks = callbacks

        return call

    def look(self) -> None:
        """Samples which callback is running between steps; called from another thread."""
        frame = sys._current_frames().get(self._thread)
        self._looks += 1
        for _ in range(DEEPEST):
            if frame is None:
                return
            name = self._names.get(frame.f_code)
            if name is not None:
                self._seen[name] += 1
                return
            frame = frame.f_back

    def by_class(self, wall_s: float, between_steps_s: float) -> dict[str, float]:
        """Returns the seconds that each class took, longest first.

        Args:
            wall_s: Wall time of the call.
            between_steps_s: Part of `wall_s` between steps: the most that the callbacks sampled
                there can have taken together.
        """
        spent_s = self.at_epochs_s.copy()
        seen = self._seen.copy()  # the sampling thread may add to it
        seen_s = {name: count / self._looks * wall_s for name, count in seen.items()}
        scale = min(1.0, between_steps_s / sum(seen_s.values())) if seen_s else 1.0
        for name, seconds in seen_s.items():
            spent_s[name] += scale * seconds
        return dict(sorted(spent_s.items(), key=lambda each: -each[1]))


def _names_by_code(callbacks: list[Any]) -> dict[CodeType, str]:
    """Returns the class names of callbacks, by the code objects of their batch hooks.

    A hook that several of the classes inherit is named by the class that defines it.
    """
    names: dict[CodeType, str] = {}
    for callback in callbacks:
        for name in _BATCH_HOOKS:
            hook: Any = getattr(callback, name, None)
            code = getattr(hook, "__code__", None)
            # Keras' default hooks do nothing, so they take no time.
            if code is None or hasattr(hook, "_is_default"):
                continue
            own = type(callback).__name__
            if names.setdefault(code, own) != own:
                names[code] = hook.__qualname__.rpartition(".")[0].rpartition(".")[2] or own
    return names
