"""Distribution of step times and the slowest steps, in fixed memory."""

from __future__ import annotations

import heapq
import math

import numpy as np

from keras_gpukit.input.wait.meters import Times
from keras_gpukit.records.step_times import BIN_GROWTH, SlowStep, StepTimes

MOST_SLOW_STEPS = 10
_GROWTH = math.log(BIN_GROWTH)
_SMALLEST_S, _LARGEST_S = 1e-6, 1e4
_BINS = math.ceil(math.log(_LARGEST_S / _SMALLEST_S) / _GROWTH) + 1


class StepTimeHistogram:
    """Histogram of step times, and the slowest steps.

    Args:
        steps_per_call: Number of steps in one call. Each step counts with an equal share of the
            call's time.
    """

    def __init__(self, steps_per_call: int) -> None:
        self._steps_per_call = steps_per_call
        self._counts = np.zeros(_BINS, np.int64)
        # The slowest first; the step number orders steps of equal duration.
        self._slowest: list[tuple[float, int, SlowStep]] = []

    def add(
        self, durations_s: Times, waits_s: Times | None, *, last_step: int, ended_s: float
    ) -> None:
        """Adds consecutive calls.

        Args:
            durations_s: Duration of each call, in seconds. Shape (calls,).
            waits_s: Wait of each call, in seconds; None if unknown. Shape (calls,).
            last_step: Global step of the last call.
            ended_s: End of the last call, in seconds since the Unix epoch.
        """
        times_s = durations_s / self._steps_per_call
        bins = np.log(np.maximum(times_s, _SMALLEST_S) / _SMALLEST_S) / _GROWTH
        bins = np.minimum(bins, _BINS - 1).astype(np.int64)
        self._counts += np.bincount(bins, minlength=_BINS)
        is_full = len(self._slowest) == MOST_SLOW_STEPS
        # Usually none of these calls is among the slowest.
        if is_full and times_s.max() <= self._slowest[-1][0]:
            return
        slowest = self._slowest.copy()
        places = np.argsort(times_s)[-MOST_SLOW_STEPS:].tolist()
        until_end_s = np.cumsum(durations_s[::-1])[::-1]
        for place in places:
            step = last_step - (len(times_s) - 1 - place) * self._steps_per_call
            wait_s = None
            if waits_s is not None:  # below zero if the clock was read late in the call
                wait_s = max(float(waits_s[place]) / self._steps_per_call, 0.0)
            slow = SlowStep(
                step, ended_s - float(until_end_s[place]), float(times_s[place]), wait_s
            )
            slowest.append((slow.duration_s, step, slow))
        self._slowest = heapq.nlargest(MOST_SLOW_STEPS, slowest)

    def record(self) -> StepTimes | None:
        """Returns the distribution; None before the first step."""
        filled = np.flatnonzero(self._counts)
        if not len(filled):
            return None
        first, last = int(filled[0]), int(filled[-1])
        return StepTimes(
            steps=int(self._counts.sum()) * self._steps_per_call,
            first_bin_s=_SMALLEST_S * math.exp(first * _GROWTH),
            counts=tuple((self._counts[first : last + 1] * self._steps_per_call).tolist()),
            slowest=tuple(slow for *_, slow in self._slowest),
        )
