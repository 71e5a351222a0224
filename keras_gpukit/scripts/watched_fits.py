"""Adds a `Monitor` to every `fit` of a script that was not written for it; times its profiles."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.frameworks import keras_models
from keras_gpukit.monitoring.script_globals import line_of_script
from keras_gpukit.records.script import ScriptProfile
from keras_gpukit.scripts.import_hook import followed_by
from keras_gpukit.scripts.main_module import PACKAGE
from keras_gpukit.scripts.run_folder import RunFolder
from keras_gpukit.scripts.script_calls import ScriptCalls

ALWAYS_MONITORED = 10
"""Number of first fits that are always monitored. Our choice: more than the rules need to judge
growth from fit to fit."""
MOST_COST = 0.01
"""Later fits are monitored while starting and ending monitors has taken at most this share of the
time since the first fit. Our choice."""


class WatchedFits:
    """Adds callbacks to each `fit` of this process, and times all calls of Keras' methods.

    A `fit` that already has a `Monitor` or a part of one gets no other `Monitor`. A `fit` within a
    `fit` of the same model gets nothing, since that would mix their figures. Of many short fits,
    only some get callbacks: monitoring each would take a good part of their time, and write
    thousands of records.

    Args:
        log_to: Services that each `Monitor` logs to, also the script's own without `log_to`.

    Attributes:
        count: Number of fits that got a `Monitor`.
        own_log_dirs: Log folders of callbacks of this package that the script itself uses.
        has_own: Whether the script itself uses callbacks of this package, including those that
            write nothing.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        profile: bool = False,
        log_to: Sequence[str] = (),
        before_fit: Callable[[], None] = lambda: None,
    ) -> None:
        self.calls = ScriptCalls(self._cost_s)
        self.profiles = ScriptProfiles(self.calls.fits)
        self.count = 0
        self.own_log_dirs: set[Path] = set()
        self.has_own = False
        self._folder = folder
        self._profile = profile
        self._log_to = log_to
        self._before_fit = before_fit
        self._guard = Guard("Adding a Monitor", "Later fits are not monitored.")
        self._lock = threading.RLock()  # an interrupt may leave it locked
        self._memory: Any = None
        self._monitor: Any = None
        self._spent_s = 0.0
        self._first_began_s: float | None = None

    def install(self) -> None:
        """Starts to add callbacks. Needs Keras imported."""
        keras_models.leave_out_of_tracebacks(PACKAGE)
        self.calls.install()
        keras_models.on_each_list(self._made)

    def _made(self, method: str, callback_list: Any, given: int) -> None:
        self.calls.follow(method, callback_list)
        if method == "fit" and self._guard.failed_because is None:
            with self._guard:
                self._before_fit()
                for callback in self._wanted(callback_list):
                    callback.set_params(callback_list.params)
                    callback.set_model(callback_list.model)
                    callback_list.callbacks.insert(given, callback)

    def _wanted(self, callback_list: Any) -> list[Any]:
        """Returns the callbacks to add, the last one first."""
        # Imported only now that the script has loaded Keras.
        from keras_gpukit.callbacks.base import WatchingCallback
        from keras_gpukit.callbacks.monitor import Monitor, monitor_of_script
        from keras_gpukit.callbacks.profiler import Profiler
        from keras_gpukit.monitoring.epoch_memory import FitMemory
        from keras_gpukit.monitoring.session import is_watched

        own = [
            callback
            for callback in callback_list.callbacks
            if isinstance(callback, WatchingCallback)
        ]
        log_dirs = [callback.log_dir for callback in own if callback.log_dir is not None]
        with self._lock:
            self.own_log_dirs.update(path.absolute() for path in log_dirs)
            self.has_own = self.has_own or bool(own)
            model = callback_list.model
            if model is None or is_watched(model):
                return []
            for callback in own:
                if isinstance(callback, Monitor):
                    callback.log_to = callback.log_to or tuple(self._log_to)
            # Memory belongs to the process: each fit continues the readings of earlier fits.
            self._memory = self._memory or FitMemory()
            if not self._is_due():
                self._memory.skip(model)
                return []
            log_dir = log_dirs[0] if log_dirs else self._folder.of_model(model)
            wanted: list[Any] = []
            if self._profile and not any(isinstance(callback, Profiler) for callback in own):
                wanted.append(Profiler(log_dir))
            if all(isinstance(callback, Profiler) for callback in own):
                self._monitor = monitor_of_script(log_dir, self._memory, self._log_to)
                wanted.append(self._monitor)
                self.count += 1
            return wanted

    def _is_due(self) -> bool:
        now_s = time.perf_counter()
        if self._first_began_s is None:
            self._first_began_s = now_s
        if self.count < ALWAYS_MONITORED:
            return True
        return self._cost_s() <= MOST_COST * (now_s - self._first_began_s)

    def _cost_s(self) -> float:
        """Returns the seconds that starting and ending monitors has taken so far."""
        summary = None if self._monitor is None else self._monitor.summary
        if summary is not None:
            self._monitor = None  # it refers to its model
            self._spent_s += summary.startup_s or 0.0
        return self._spent_s


class ScriptProfiles:
    """Times `tf.profiler.experimental.start` and `stop`, by whatever line of the script.

    Profiles that this package records are left out: they are started on threads of their own.

    Needs to know how many calls of `fit` have ended, and how many are under way.
    """

    def __init__(
        self, fits: Callable[[], tuple[int, int]], now: Callable[[], float] = time.perf_counter
    ) -> None:
        self._fits = fits
        self._now = now
        self._open: tuple[str, float, tuple[int, int]] | None = None
        self._ended: list[ScriptProfile] = []
        self._guard = Guard("Timing the script's profiles", "They are not reported.")

    def install(self) -> None:
        """Starts to time profiles. Needs TensorFlow imported."""
        with self._guard:
            import tensorflow as tf

            public = tf.profiler.experimental
            # `Profile` looks both functions up in the module that defines them.
            module = sys.modules[public.start.__module__]
            for name, timed in (("start", self.timed_start), ("stop", self.timed_stop)):
                wrapped = timed(getattr(module, name))
                setattr(module, name, wrapped)
                setattr(public, name, wrapped)

    def profile_records(self) -> tuple[ScriptProfile, ...]:
        """Returns the script's profiles, with the one that is still being recorded."""
        return (*self._ended, *([] if self._open is None else [self._profile(self._now(), None)]))

    def timed_start(self, start: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that starts a profile, and notes the line that calls it."""

        def began(_: float, *arguments: Any, **named: Any) -> None:
            with self._guard:
                line = line_of_script()
                if line is not None:
                    self._open = line, self._now(), self._fits()

        return followed_by(start, self._now, began)

    def timed_stop(self, stop: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that ends a profile, and notes how long that takes."""

        def ended(began_s: float, *arguments: Any, **named: Any) -> None:
            with self._guard:
                if self._open is not None and line_of_script() is not None:
                    self._ended.append(self._profile(began_s, self._now() - began_s))
                    self._open = None

        return followed_by(stop, self._now, ended)

    def _profile(self, until_s: float, stop_s: float | None) -> ScriptProfile:
        assert self._open is not None
        line, began_s, (ended_before, under_way) = self._open
        whole = self._fits()[0] - ended_before - under_way
        return ScriptProfile(line, until_s - began_s, max(whole, 0), stop_s)
