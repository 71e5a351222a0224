"""Decides when `Monitor` takes a profile by itself."""

from __future__ import annotations

from keras_gpukit.records.capture import Trigger
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.rules.rule import seconds
from keras_gpukit.rules.slowdown.anomalies import StepAnomalies

# These are our choice. A run that is over by then needs no profile.
AFTER_S = 20.0
"""Time from a run's start to its first automatic capture."""
STRETCH_S = 5.0
SUSPECTED_AFTER_S = 4.0
"""The same if something about the run asks for a profile, whether or not steps are steady."""
STEADY_WITHIN = 0.1
"""Largest relative difference of the mean step times of two stretches in a row, if steady."""
SLOWER = 1.5
"""Steps that take longer than usual by this factor are captured; the default of `Profiler`."""


class AutomaticCaptures:
    """Asks for one capture once steps are steady, and for one if they become slower later.

    Args:
        began_s: When the run began, in seconds since the Unix epoch.
        suspected: Whether something about the run asks for a profile. It then gets one early.

    Attributes:
        none_because: Why there was no capture of steady steps; None if one was asked for.
    """

    def __init__(self, began_s: float, *, suspected: bool = False) -> None:
        after_s = SUSPECTED_AFTER_S if suspected else AFTER_S
        self.none_because: str | None = f"the run had no steps after its first {after_s:g} s"
        self._due_s = began_s + after_s
        self._suspected = suspected
        self._slowdown = None if suspected else StepAnomalies(SLOWER, None)
        self._steps, self._duration_s = 0, 0.0
        self._step_time_s: float | None = None
        self._is_steady = False

    def skip(self) -> None:
        """Drops the windows since the last complete stretch: a capture was under way."""
        self._steps, self._duration_s = 0, 0.0
        if self._slowdown is not None:
            self._slowdown.skip()

    def add(self, window: StepWindow) -> tuple[Trigger, str] | None:
        """Adds a window of steps; returns the trigger and the reason if a capture is due."""
        slower = None if self._slowdown is None else self._slowdown.add(window)
        self._note(window)
        if window.time_s < self._due_s:
            return None
        if slower is not None:
            self._slowdown = None
            return slower
        if self.none_because is None:
            return None
        if not self._is_steady or self._step_time_s is None:
            self.none_because = "the step time was never steady"
            return None
        self.none_because = None
        return "steady", f"steady steps of {seconds(self._step_time_s * 1e3)} ms"

    def _note(self, window: StepWindow) -> None:
        self._steps += window.steps
        self._duration_s += window.duration_s
        if self._duration_s < STRETCH_S and not self._suspected:
            return
        before_s, self._step_time_s = self._step_time_s, self._duration_s / self._steps
        self._steps, self._duration_s = 0, 0.0
        self._is_steady = self._suspected or (
            before_s is not None and abs(self._step_time_s - before_s) <= STEADY_WITHIN * before_s
        )
