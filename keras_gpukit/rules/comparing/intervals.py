"""95 % intervals of the change from one run to another, from the windows of each.

Windows of a run are not independent: a slow one is often followed by another. They are taken for an
autoregressive process of the first order, whose mean varies more than that of independent windows
(Bayley and Hammersley, "The 'effective' number of independent observations in an autocorrelated
time series", 1946).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

WARM_UP = 0.2
"""Share of a run's windows, the first ones, that are left out: autotuning starts, the disk's cache
is cold, idle cores wake up. Our choice."""
LEAST_WINDOWS = 8
"""Least number of windows after the warm-up; of fewer, the correlation cannot be estimated."""
MOST_CORRELATED, LEAST_FREEDOM = 0.9, 3.0
"""Bounds of what few windows say about their correlation; our choice."""
LARGEST_LOG = 100.0
"""Largest logarithm of a ratio; larger ones come from damaged files and have no exponential."""
BETWEEN_RUNS = 0.015
"""Standard deviation of a mean, as a share of it, from one run to the next of the same script. A
run's own windows do not show it: memory is laid out differently, threads get other cores. Our
choice; on a virtual machine that shares its cores it is too little, as equal pairs of
`benchmarks/compare_truth.py` show."""
# Two-sided 95 % quantiles of Student's t for 1 to 19 degrees of freedom.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093),
)


def student(freedom: float) -> float:
    """Returns the two-sided 95 % quantile of Student's t, of so many degrees of freedom."""
    whole = int(freedom)
    # The rest is accurate to 0.1 %.
    return _STUDENT[whole - 1] if whole <= len(_STUDENT) else 1.96 + 2.5 / whole


class Estimate(NamedTuple):
    """Mean of a figure over a run.

    Attributes:
        error: Standard error of the mean by the run's windows.
        freedom: Degrees of freedom of `error`.
        between: Standard deviation from one run to the next, as a share of the mean, or of a whole.
    """

    mean: float
    error: float
    freedom: float
    between: float = BETWEEN_RUNS


def estimate(values: Sequence[float], weights: Sequence[float]) -> Estimate | None:
    """Returns the weighted mean of windows after the warm-up; None if they are too few."""
    skipped = math.ceil(WARM_UP * len(values))
    values, weights = values[skipped:], weights[skipped:]
    count, total = len(values), sum(weights)
    if count < LEAST_WINDOWS or total <= 0 or min(weights) < 0:
        return None
    mean = sum(map(operator.mul, values, weights)) / total
    off = [
        math.sqrt(weight * count / total) * (value - mean)
        for value, weight in zip(values, weights, strict=True)
    ]
    squares = sum(each * each for each in off)
    if squares == 0:
        return Estimate(mean, 0.0, count - 1)
    correlation = sum(map(operator.mul, off, off[1:])) / squares
    # Of few windows it comes out too low (Marriott and Pope, 1954).
    correlation += (1 + 3 * correlation) / count
    correlation = min(max(correlation, 0.0), MOST_CORRELATED)
    variance = squares / (count - 1) / count * (1 + correlation) / (1 - correlation)
    freedom = (count - 1) * (1 - correlation**2) / (1 + correlation**2)
    return Estimate(mean, math.sqrt(variance), max(freedom, LEAST_FREEDOM))


def relative_change(a: Estimate, b: Estimate) -> tuple[float, float, float] | None:
    """Returns b / a - 1 and its interval; None unless both means are above 0."""
    if a.mean <= 0 or b.mean <= 0:
        return None
    center = math.log(b.mean) - math.log(a.mean)
    half = _half(a._replace(error=a.error / a.mean), b._replace(error=b.error / b.mean))
    low, high = max(center - half, -LARGEST_LOG), min(center + half, LARGEST_LOG)
    return math.expm1(center), math.expm1(low), math.expm1(high)


def difference(a: Estimate, b: Estimate) -> tuple[float, float, float]:
    """Returns b - a of two shares and its interval."""
    center, half = b.mean - a.mean, _half(a, b)
    return center, center - half, center + half


def _half(a: Estimate, b: Estimate) -> float:
    """Returns half the width of the interval (Welch's t)."""
    own = a.error**2 + b.error**2
    squared = own + a.between**2 + b.between**2
    spent = a.error**4 / a.freedom + b.error**4 / b.freedom
    # Without noise in the windows, only the variation between runs is left, which is given.
    freedom = squared**2 / spent if spent > 0 else math.inf
    return student(min(freedom, 1e6)) * math.sqrt(squared)
