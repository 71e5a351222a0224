"""Times the profiles that a script records itself with TensorFlow's profiler."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.records.script import ScriptProfile
from keras_gpukit.scripts.around import followed_by


class ScriptProfiles:
    """Times `tf.profiler.experimental.start` and `stop`, by whatever line of the script.

    Profiles that this package records are left out: they are started on threads of their own.

    Args:
        fits: Returns how many calls of `fit` have ended, and how many are under way.
        now: The clock, in seconds.
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

    def record(self) -> tuple[ScriptProfile, ...]:
        """Returns the script's profiles, with the one that is still being recorded."""
        return (*self._ended, *([] if self._open is None else [self._profile(self._now(), None)]))

    def timed_start(self, start: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that starts a profile, and notes the line that calls it."""

        def began(_: float, *arguments: Any, **named: Any) -> None:
            with self._guard:
                line = _line_of_script(sys._getframe(2))
                if line is not None:
                    self._open = line, self._now(), self._fits()

        return followed_by(start, self._now, began)

    def timed_stop(self, stop: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that ends a profile, and notes how long that takes."""

        def ended(began_s: float, *arguments: Any, **named: Any) -> None:
            with self._guard:
                if self._open is not None and _line_of_script(sys._getframe(2)) is not None:
                    self._ended.append(self._profile(began_s, self._now() - began_s))
                    self._open = None

        return followed_by(stop, self._now, ended)

    def _profile(self, until_s: float, stop_s: float | None) -> ScriptProfile:
        assert self._open is not None
        line, began_s, (ended_before, under_way) = self._open
        whole = self._fits()[0] - ended_before - under_way
        return ScriptProfile(line, until_s - began_s, max(whole, 0), stop_s)


def _line_of_script(frame: FrameType | None) -> str | None:
    while frame is not None:
        if is_of_the_script(frame.f_code.co_filename):
            return place(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None
