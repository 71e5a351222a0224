"""Decides when `Monitor` takes a profile of steps on a GPU by itself."""

from __future__ import annotations

from keras_gpukit.records.profile import Trigger
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.rules.rule import seconds

# These are our choice. A run that is over by then needs no profile.
AFTER_S = 20.0
"""Time from a run's start to its first automatic capture."""
STEADY_STRETCH_S = 5.0
STEADY_WITHIN = 0.1
"""Largest relative difference of the mean step times of two stretches in a row, if steady."""
SLOWER = 1.5
"""Steps that take longer than the steady ones by this factor, for two stretches, are captured."""


class Stretches:
    """Joins windows of steps to stretches of a least length."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self.clear()

    def clear(self) -> None:
        """Drops the windows since the last complete stretch."""
        self._steps, self._duration_s = 0, 0.0

    def add(self, window: StepWindow) -> float | None:
        """Adds a window; at the end of a stretch, returns its mean step time in seconds."""
        self._steps += window.steps
        self._duration_s += window.duration_s
        if self._duration_s < self._least_s:
            return None
        step_time_s = self._duration_s / self._steps
        self.clear()
        return step_time_s


class AutomaticCaptures:
    """Asks for one capture once steps are steady, and for one if they become slower later.

    Args:
        began_s: When the run began, in seconds since the Unix epoch.

    Attributes:
        none_because: Why there was no capture of steady steps; None if one was asked for.
        executions: Number of executions to capture; None for the usual number.
    """

    executions: int | None = None

    def __init__(self, began_s: float) -> None:
        self.none_because: str | None = f"the run had no steps after its first {AFTER_S:g} s"
        self._due_s = began_s + AFTER_S
        self._stretches = Stretches(STEADY_STRETCH_S)
        self._step_time_s: float | None = None
        self._steady_s: float | None = None
        self._is_told = False

    def skip(self) -> None:
        """Drops the windows since the last complete stretch: a capture was under way."""
        self._stretches.clear()

    def add(self, window: StepWindow) -> tuple[Trigger, str] | None:
        """Adds a window of steps; returns the trigger and the reason if a capture is due."""
        step_time_s = self._stretches.add(window)
        if step_time_s is None:
            return None
        before_s, self._step_time_s = self._step_time_s, step_time_s
        if window.time_s < self._due_s:
            return None
        if self._steady_s is None:
            if before_s is None or abs(step_time_s - before_s) > STEADY_WITHIN * before_s:
                self.none_because = "the step time was never steady"
                return None
            self.none_because, self._steady_s = None, step_time_s
            return "steady", f"steady steps of {seconds(step_time_s * 1e3)} ms"
        # One stretch alone may be slow by a checkpoint or another process.
        is_slower = min(before_s or 0.0, step_time_s) > SLOWER * self._steady_s
        if not is_slower or self._is_told:
            return None
        self._is_told = True
        took, usual = seconds(step_time_s * 1e3), seconds(self._steady_s * 1e3)
        return "step time", f"steps took {took} ms, usually {usual} ms"
