"""Distribution of waits over the calls of a step function, in fixed memory."""

from __future__ import annotations

import math

import numpy as np

from keras_gpukit.input.wait.meters import Times
from keras_gpukit.records.steps import WaitDistribution
from keras_gpukit.rules.input.input_bound import SHORTEST_WAIT_S
from keras_gpukit.rules.savings import WARNING_FRACTION

_SMALLEST_S, _LARGEST_S = 1e-6, 1e4
# Each bin is 5 % wider than the one before, so quantiles are accurate to 5 %.
_GROWTH = math.log(1.05)
_BINS = math.ceil(math.log(_LARGEST_S / _SMALLEST_S) / _GROWTH) + 1
# Bursts are regular if the standard deviation of the intervals between their starts is at most this
# share of the mean interval.
_REGULAR = 0.25
_FEWEST_INTERVALS = 3


def _counts_of(times_s: Times) -> np.ndarray:
    """Returns the number of times in each bin. Each bin is 5 % larger than the last."""
    # Training waits meanwhile, and the step has emptied the CPU caches: each NumPy call takes
    # several microseconds, and `np.clip` four times as long.
    bins = np.log(np.maximum(times_s, _SMALLEST_S) / _SMALLEST_S) / _GROWTH
    return np.bincount(np.minimum(bins, _BINS - 1).astype(np.int64), minlength=_BINS)


class WaitHistogram:
    """Histogram of the waits of a step function's calls, and statistics of their bursts.

    Args:
        steps_per_call: Number of steps in one call. Each step counts with an equal share of the
            call's wait.
    """

    def __init__(self, steps_per_call: int) -> None:
        self._steps_per_call = steps_per_call
        self._counts = np.zeros(_BINS, np.int64)
        self._worst_s = 0.0
        self._stalled = 0
        # A burst is one stalled call, or several in a row. `_began` is the number of the call that
        # began the last one; None before the first one and after a gap.
        self._calls = 0
        self._in_burst = False
        self._began: int | None = None
        self._intervals = np.zeros(3)  # between bursts: number, sum, sum of squares

    def add(self, waits_s: Times, durations_s: Times) -> None:
        """Adds consecutive calls."""
        each_s = np.minimum(waits_s, durations_s) / self._steps_per_call
        counts = _counts_of(each_s)
        # First, since no quantile may be above it.
        self._worst_s = max(self._worst_s, float(each_s.max()))
        self._counts += counts
        # A step counts as stalled if a run of such steps would be reported as waiting for input.
        shortest_s = SHORTEST_WAIT_S * self._steps_per_call
        self._add_bursts((waits_s >= shortest_s) & (waits_s >= WARNING_FRACTION * durations_s))

    def _add_bursts(self, stalled: np.ndarray) -> None:
        before = np.concatenate(([self._in_burst], stalled[:-1]))
        begins = np.flatnonzero(stalled & ~before) + self._calls
        self._in_burst = bool(stalled[-1])
        self._calls += len(stalled)
        self._stalled += int(stalled.sum())
        if not len(begins):
            return
        known = begins if self._began is None else np.concatenate(([self._began], begins))
        intervals = np.diff(known).astype(float)
        self._intervals += (len(intervals), intervals.sum(), (intervals**2).sum())
        self._began = int(begins[-1])

    def gap(self) -> None:
        """Notes that the next call does not directly follow the previous one."""
        self._in_burst, self._began = False, None

    def record(self) -> WaitDistribution | None:
        """Returns the distribution; None if no single call's wait is known."""
        calls = int(self._counts.sum())
        if calls == 0:
            return None
        return WaitDistribution(
            median_s=self._quantile(0.5),
            p95_s=self._quantile(0.95),
            worst_s=self._worst_s,
            stalled_fraction=self._stalled / calls,
            burst_period_steps=self._period(),
        )

    def _quantile(self, share: float) -> float:
        filled = np.cumsum(self._counts)
        place = int(np.searchsorted(filled, share * filled[-1]))
        # The middle of the bin. Waits in the first one, of about 1 µs or less, count as 0.
        middle_s = _SMALLEST_S * math.exp((place + 0.5) * _GROWTH)
        return min(middle_s, self._worst_s) if place else 0.0

    def _period(self) -> float | None:
        count, total, squares = self._intervals.tolist()
        if count < _FEWEST_INTERVALS:
            return None
        mean = total / count
        deviation = math.sqrt(max(squares / count - mean**2, 0.0))
        return mean * self._steps_per_call if deviation <= _REGULAR * mean else None
