"""A `Monitor` in every `fit` of a script that was not written for it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.running import keras_private
from keras_gpukit.running.run_folder import RunFolder

MOST_FITS_OF_A_MODEL = 100


class WatchedFits:
    """Adds callbacks to each `fit` of this process.

    Not to one that has a `Monitor` or a part of it already, not to a `fit` within a `fit` of the
    same model, whose figures it would mix, and of one model only to the first 100: a script that
    calls `fit` for every few steps would have thousands of records.

    Attributes:
        count: Fits that got a `Monitor`.
        own_log_dirs: Log folders of callbacks of this package that the script has itself.
        has_own: Whether the script has any, also those that write nothing.
    """

    def __init__(self, folder: RunFolder, *, profile: bool = False) -> None:
        self.count = 0
        self.own_log_dirs: set[Path] = set()
        self.has_own = False
        self._folder = folder
        self._profile = profile
        self._guard = Guard("Adding a Monitor", "Later fits are not monitored.")
        self._fits_of: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._lock = threading.RLock()  # an interrupt may leave it locked
        self._memory: Any = None

    def install(self) -> Callable[[], None]:
        """Starts to add them, and returns what ends it. Keras is imported."""
        keras_private.leave_out_of_tracebacks()
        return keras_private.on_each_fit(self._add)

    def _add(self, callback_list: Any, given: int) -> None:
        if self._guard.failed_because is None:
            with self._guard:
                for callback in self._wanted(callback_list):
                    callback.set_params(callback_list.params)
                    callback.set_model(callback_list.model)
                    callback_list.callbacks.insert(given, callback)

    def _wanted(self, callback_list: Any) -> list[Any]:
        """The callbacks to add, the last one first."""
        # Now that the script has loaded Keras.
        from keras_gpukit.callbacks.base import WatchingCallback
        from keras_gpukit.callbacks.monitor import Monitor
        from keras_gpukit.callbacks.profiler import Profiler
        from keras_gpukit.watching.fit_memory import FitMemory
        from keras_gpukit.watching.open_session import is_watched

        own = [each for each in callback_list.callbacks if isinstance(each, WatchingCallback)]
        log_dirs = [each.log_dir for each in own if each.log_dir is not None]
        with self._lock:
            self.own_log_dirs.update(path.absolute() for path in log_dirs)
            self.has_own = self.has_own or bool(own)
            model = callback_list.model
            if model is None or is_watched(model):
                return []
            number = self._fits_of.get(model, 0) + 1
            if number > MOST_FITS_OF_A_MODEL:
                return []
            self._fits_of[model] = number
            log_dir = log_dirs[0] if log_dirs else self._folder.of_model(model)
            wanted: list[Any] = []
            if self._profile and not any(isinstance(each, Profiler) for each in own):
                wanted.append(Profiler(log_dir))
            if all(isinstance(each, Profiler) for each in own):
                monitor = Monitor(log_dir, verbose=0)
                # Memory is the process's: each fit continues what those before have read.
                self._memory = self._memory or FitMemory()
                monitor.continue_with(self._memory)
                wanted.append(monitor)
                self.count += 1
            return wanted
