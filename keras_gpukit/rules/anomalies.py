"""Detects anomalies: steps take longer or stall more than before, or GPUs idle."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable

from keras_gpukit.records.capture import Trigger
from keras_gpukit.records.steps import StepWindow

# A stretch that a figure is taken from; shorter windows, as of short epochs, are put together.
STRETCH_S = 1.0
# What came in the last minute is what is usual, once there was enough of it. Before that a run
# still warms up: buffers fill, tf.data tunes itself, clocks rise.
USUAL_STRETCHES = 60
FEWEST_STRETCHES = 10
# One or two stretches out of line are a hiccup: a checkpoint, another process.
STRETCHES_TO_TELL = 3


class Anomalies:
    """Detects when a figure stays above its baseline.

    It does when several values in a row lie beyond the limit, and beyond 19 of 20 of those before:
    a run that is restless anyway is to be left alone. What it rose to is usual from then on.

    Args:
        limit: Makes, from what is usual, the value that is no longer.
    """

    def __init__(self, limit: Callable[[float], float]) -> None:
        self._limit = limit
        self._history: deque[float] = deque(maxlen=USUAL_STRETCHES)
        self._beyond: list[float] = []

    def add(self, value: float) -> float | None:
        """Takes in a value; returns what was usual until now if the run has left it."""
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


class StepAnomalies:
    """Detects when steps take longer, or wait longer for input, than they did.

    Args:
        slower: How many times the usual step time is too long; None does not look at it.
        stall_rise: By how much the stall fraction may rise, 0 to 1; None does not look at it.
    """

    def __init__(self, slower: float | None, stall_rise: float | None) -> None:
        self._step_time = None if slower is None else Anomalies(lambda usual: usual * slower)
        self._stall = None if stall_rise is None else Anomalies(lambda usual: usual + stall_rise)
        self._steps = 0
        self._duration_s = 0.0
        self._wait_s: float | None = 0.0

    def skip(self) -> None:
        """What comes up to now is not to be judged: a capture was under way."""
        self._forget()

    def add(self, window: StepWindow) -> tuple[Trigger, str] | None:
        """Takes in a window of steps; says what rose if something did."""
        self._steps += window.steps
        self._duration_s += window.duration_s
        if self._wait_s is None or window.input_wait_s is None:
            self._wait_s = None
        else:
            self._wait_s += window.input_wait_s
        if self._duration_s < STRETCH_S:
            return None
        step_time_s = self._duration_s / self._steps
        stall = None if self._wait_s is None else self._wait_s / self._duration_s
        self._forget()
        # Both get each value, even if the first one reports.
        usual_s = None if self._step_time is None else self._step_time.add(step_time_s)
        usual_stall = None if self._stall is None or stall is None else self._stall.add(stall)
        if usual_stall is not None:
            return "stall", f"input stall {stall:.0%}, usually {usual_stall:.0%}"
        if usual_s is not None:
            told = f"steps took {step_time_s * 1e3:.3g} ms, usually {usual_s * 1e3:.3g} ms"
            return "step time", told
        return None

    def _forget(self) -> None:
        self._steps = 0
        self._duration_s = 0.0
        self._wait_s = 0.0


class UtilizationAnomalies:
    """Detects when GPUs are less busy than they were.

    Args:
        drop_percent: How far utilization may fall, in percentage points.
    """

    def __init__(self, drop_percent: float) -> None:
        self._idle = Anomalies(lambda usual: usual + drop_percent)

    def add(self, utilization_percent: float) -> tuple[Trigger, str] | None:
        """Takes in a reading, the mean of all GPUs; says so if it fell."""
        usual = self._idle.add(100 - utilization_percent)
        if usual is None:
            return None
        told = f"GPUs {utilization_percent:.0f} % busy, usually {100 - usual:.0f} %"
        return "utilization", told
