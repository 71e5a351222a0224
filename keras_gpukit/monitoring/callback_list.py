"""Watches the list through which Keras calls all callbacks: when they run and what they raise.

Our own callback sees only its own hooks. Only the list shows what other callbacks do before and
after it, how long each class of them takes, and the exception by which one of them ends the call.
At the start and end of epochs, Keras' loop over the callbacks is timed. Between steps, timing would
add too much overhead, so sampled stacks show which callback is running.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import UserList, defaultdict
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from keras_gpukit.frameworks.keras_models import is_default
from keras_gpukit.monitoring.replaced_attribute import ReplacedAttribute
from keras_gpukit.records.steps import OWN_WORK
from keras_gpukit.saved_runs.folding.downsampling import Joined
from keras_gpukit.sensors.stack_parts import CodeWatch

# `on_train_begin` and `on_predict_begin` are already running when our callback is called.
_HOOKS = (
    *("on_epoch_begin", "on_epoch_end", "on_train_end"),
    *("on_test_begin", "on_test_end", "on_predict_end"),
    *(
        f"on_{mode}_batch_{end}"
        for mode in ("train", "test", "predict")
        for end in ("begin", "end")
    ),
)
Hook = Callable[..., None]
MOST_MARKS = 192
"""Marks of epochs that are kept at most, even: so that thirds are exact to 1 % in long runs."""
_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


class CallbackListWatch:
    """Watches the hooks of a callback list from `start` to `close`.

    Attributes:
        sees_epochs: Whether the starts and ends of epochs are visible.
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
        names = _HOOKS if self.sees_epochs else ()
        self._hooks = {name: ReplacedAttribute(callback_list, name) for name in names}

    def start(self) -> None:
        """Replaces the hooks."""
        for name, hook in self._hooks.items():
            hook.replace(self._watched(name, hook.current))

    def close(self) -> None:
        """Restores the hooks, and forgets all listeners; may be called repeatedly."""
        for hook in self._hooks.values():
            hook.restore()
        self._on_error = lambda error: None
        self._on_epoch_began = self._on_epoch_ends = self._on_epoch_ended = lambda: None

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
            self.times.own(self._on_epoch_began)

        def epoch_ends(*args: Any, **kwargs: Any) -> None:
            self.epoch_ended_s = now()
            self.times.own(self._on_epoch_ends)
            call(*args, **kwargs)
            self.times.own(self._on_epoch_ended)
            self.times.epoch_ended()

        if name == "on_epoch_begin":
            return epoch_begins
        if name == "on_epoch_end":
            return epoch_ends
        return at_batch if "_batch_" in name else call


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

    Attributes:
        at_epochs_s: Seconds of each class at the start and the end of epochs, and of our own work.
        between_steps: Looks that found a callback running between steps.
    """

    def __init__(self, callback_list: Any, thread: int) -> None:
        self._list = callback_list
        self.at_epochs_s: defaultdict[str, float] = defaultdict(float)
        self._names = {} if callback_list is None else _names_by_code(callback_list.callbacks)
        self.between_steps = CodeWatch(self._names, thread)
        # `at_epochs_s` as of the last of every so many epochs.
        self._marks = Joined[dict[str, float]](MOST_MARKS, lambda before, after: after)

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

    def own(self, action: Callable[[], None]) -> None:
        """Calls an action, and counts its time as this package's own."""
        began_s = time.perf_counter()
        action()
        self.at_epochs_s[OWN_WORK] += time.perf_counter() - began_s

    def epoch_ended(self) -> None:
        """Notes the times so far."""
        self._marks.add(dict(self.at_epochs_s))

    def by_thirds(self) -> dict[str, tuple[float, float]]:
        """Returns the seconds of each class per epoch, in the first and the last third of epochs.

        They are those at the start and the end of epochs. Empty before the third epoch.
        """
        every = self._marks.per_item
        marks = tuple(self._marks.items)[: self._marks.readings // every]
        count = len(marks) // 3
        if not count:
            return {}
        begin, before, end = marks[count - 1], marks[-1 - count], marks[-1]
        epochs = count * every
        return {
            name: (begin.get(name, 0.0) / epochs, (spent_s - before.get(name, 0.0)) / epochs)
            for name, spent_s in end.items()
        }

    def by_class(self, wall_s: float, between_steps_s: float) -> dict[str, float]:
        """Returns the seconds of the call's wall time that each class took, longest first.

        The callbacks sampled between steps can have taken at most `between_steps_s` together.
        """
        spent_s = self.at_epochs_s.copy()
        watch, seen_s = self.between_steps, defaultdict[str, float](float)
        for code, count in watch.found.items():
            seen_s[self._names[code]] += count / watch.samples * wall_s
        scale = min(1.0, between_steps_s / sum(seen_s.values())) if seen_s else 1.0
        for name, seconds in seen_s.items():
            spent_s[name] += scale * seconds
        return dict(sorted(spent_s.items(), key=lambda item: -item[1]))


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
            if code is None or is_default(hook):
                continue
            own = type(callback).__name__
            if names.setdefault(code, own) != own:
                names[code] = hook.__qualname__.rpartition(".")[0].rpartition(".")[2] or own
    return names
