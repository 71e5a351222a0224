"""Detects anomalies of steps and GPUs, and decides when `Monitor` takes a profile by itself."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable

from keras_gpukit.records.capture import Trigger
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.rules.rule import seconds

# Least length of a stretch. Each stretch gives one value; shorter windows, such as those of short
# epochs, are merged.
STRETCH_S = 1.0
# The baseline is the last minute, once there are enough stretches. Before that a run still warms
# up: buffers fill, tf.data tunes itself, clocks rise.
USUAL_STRETCHES = 60
FEWEST_STRETCHES = 10
# One or two outliers are a hiccup, such as a checkpoint or another process.
STRETCHES_TO_TELL = 3


class Anomalies:
    """Detects when a figure stays above its baseline.

    Several values in a row must exceed the limit, and also 19 of 20 of the values before them: a
    figure that varies a lot anyway triggers nothing. The values that it rose to become the new
    baseline.

    Args:
        limit: Returns the highest normal value for a baseline.
    """

    def __init__(self, limit: Callable[[float], float]) -> None:
        self._limit = limit
        self._history: deque[float] = deque(maxlen=USUAL_STRETCHES)
        self._beyond: list[float] = []

    def add(self, value: float) -> float | None:
        """Adds a value; returns the previous baseline if the figure has risen above it."""
        if len(self._history) < FEWEST_STRETCHES:
            self._history.append(value)
            return None
        usual = statistics.median(self._history)
        high = sorted(self._history)[int(0.95 * (len(self._history) - 1))]
        self._beyond.append(value)
        if value <= max(self._limit(usual), high):
            self._history.extend(self._beyond)
            self._beyond = []
        if len(self._beyond) < STRETCHES_TO_TELL:
            return None
        self._history.clear()
        self._history.extend(self._beyond)
        self._beyond = []
        return usual


class Stretches:
    """Joins windows of steps to stretches of a least length."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self.clear()

    def clear(self) -> None:
        """Drops the windows since the last complete stretch."""
        self._steps, self._duration_s = 0, 0.0
        self._wait_s: float | None = 0.0

    def add(self, window: StepWindow) -> tuple[float, float | None] | None:
        """Adds a window; at the end of a stretch, returns its step time in s, and its stall."""
        self._steps += window.steps
        self._duration_s += window.duration_s
        if self._wait_s is None or window.input_wait_s is None:
            self._wait_s = None
        else:
            self._wait_s += window.input_wait_s
        if self._duration_s < self._least_s:
            return None
        stall = None if self._wait_s is None else self._wait_s / self._duration_s
        step_time_s = self._duration_s / self._steps
        self.clear()
        return step_time_s, stall


class StepAnomalies:
    """Detects when steps take longer than before, or wait longer for input.

    Args:
        slower: Highest normal step time, as a multiple of the baseline; None ignores step times.
        stall_rise: Highest normal rise of the stall fraction, 0 to 1; None ignores stalls.
    """

    def __init__(self, slower: float | None, stall_rise: float | None) -> None:
        self._step_time = None if slower is None else Anomalies(lambda usual: usual * slower)
        self._stall = None if stall_rise is None else Anomalies(lambda usual: usual + stall_rise)
        self._stretches = Stretches(STRETCH_S)

    def skip(self) -> None:
        """Drops the windows since the last complete stretch: a capture was under way."""
        self._stretches.clear()

    def add(self, window: StepWindow) -> tuple[Trigger, str] | None:
        """Adds a window of steps; returns the trigger and the reason in words if a figure rose."""
        stretch = self._stretches.add(window)
        if stretch is None:
            return None
        step_time_s, stall = stretch
        # Both detectors get every value, even if the first one reports an anomaly.
        usual_s = None if self._step_time is None else self._step_time.add(step_time_s)
        usual_stall = None if self._stall is None or stall is None else self._stall.add(stall)
        if usual_stall is not None:
            return "stall", f"input stall {stall:.0%}, usually {usual_stall:.0%}"
        if usual_s is not None:
            took = f"steps took {seconds(step_time_s * 1e3)} ms"
            return "step time", f"{took}, usually {seconds(usual_s * 1e3)} ms"
        return None


class UtilizationAnomalies:
    """Detects when GPUs are less busy than before.

    Args:
        drop_percent: Largest normal drop of the utilization, in percentage points.
    """

    def __init__(self, drop_percent: float) -> None:
        self._idle = Anomalies(lambda usual: usual + drop_percent)

    def add(self, utilization_percent: float) -> tuple[Trigger, str] | None:
        """Adds a reading, the mean of all GPUs; returns trigger and reason if utilization fell."""
        usual = self._idle.add(100 - utilization_percent)
        if usual is None:
            return None
        now = f"GPUs {utilization_percent:.0f} % busy"
        return "utilization", f"{now}, usually {100 - usual:.0f} %"


# These are our choice. A run that is over by then needs no profile.
AFTER_S = 20.0
"""Time from a run's start to its first automatic capture."""
STEADY_STRETCH_S = 5.0
STEADY_WITHIN = 0.1
"""Largest relative difference of the mean step times of two stretches in a row, if steady."""
SLOWER = 1.5
"""Steps that take longer than usual by this factor are captured; the default of `Profiler`."""


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
        self._slowdown: StepAnomalies | None = StepAnomalies(SLOWER, None)
        self._stretches = Stretches(STEADY_STRETCH_S)
        self._step_time_s: float | None = None
        self._is_steady = False

    def skip(self) -> None:
        """Drops the windows since the last complete stretch: a capture was under way."""
        self._stretches.clear()
        if self._slowdown is not None:
            self._slowdown.skip()

    def add(self, window: StepWindow) -> tuple[Trigger, str] | None:
        """Adds a window of steps; returns the trigger and the reason if a capture is due."""
        slower = None if self._slowdown is None else self._slowdown.add(window)
        if (stretch := self._stretches.add(window)) is not None:
            before_s, self._step_time_s = self._step_time_s, stretch[0]
            self._is_steady = (
                before_s is not None
                and abs(self._step_time_s - before_s) <= STEADY_WITHIN * before_s
            )
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
