"""95 % intervals of the change from one run to another, from the windows of each or from repeats.

The noise of shared machines does not average out: the means of half a minute differ almost as much
as those of seconds do (`benchmarks/compare_truth.py`). So what parts of a run differ by is taken
for what the next run may differ by; the error of the mean alone would promise too much.
"""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from collections.abc import Sequence
from typing import NamedTuple

WARM_UP = 0.2
"""Share of a run's windows, the first ones, that are left out: autotuning starts, the disk's cache
is cold, idle cores wake up. Our choice."""
PARTS = 8
"""Parts of a run, of equally many windows, whose means are compared; our choice. It is the least
number of windows after the warm-up too."""
LARGEST_LOG = 100.0
"""Largest logarithm of a ratio; larger ones come from damaged files and have no exponential."""
BETWEEN_RUNS = 0.015
"""Standard deviation of a mean, as a share of it, from one run to the next of the same script where
a run's parts do not differ: memory is laid out differently, threads get other cores. Our choice."""
# Two-sided 95 % quantiles of Student's t for 1 to 19 degrees of freedom.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093),
)


def student(freedom: float) -> float:
    """Returns the two-sided 95 % quantile of Student's t, of so many degrees of freedom."""
    whole = max(int(freedom), 1)  # of two runs it is 1, and rounding may give slightly less
    # The rest is accurate to 0.1 %.
    return _STUDENT[whole - 1] if whole <= len(_STUDENT) else 1.96 + 2.5 / whole


class Estimate(NamedTuple):
    """Mean of a figure over a run, or over repeated runs.

    Attributes:
        deviation: Standard deviation of the mean.
        freedom: Degrees of freedom of `deviation`.
        between: Standard deviation from one run to the next that a run's windows do not show, as a
            share of the mean, or of a whole.
    """

    mean: float
    deviation: float
    freedom: float
    between: float = BETWEEN_RUNS


def estimate(
    values: Sequence[float], weights: Sequence[float], least: int = PARTS
) -> Estimate | None:
    """Returns the weighted mean of windows after the warm-up; None if they are fewer than `least`.

    Of fewer than two parts, the deviation is unknown, and infinite.
    """
    skipped = math.ceil(WARM_UP * len(values))
    values, weights = values[skipped:], weights[skipped:]
    count = len(values)
    if count < least or sum(weights) <= 0 or min(weights) < 0:
        return None
    ends = [count * part // PARTS for part in range(PARTS + 1)]
    parts = [slice(*each) for each in itertools.pairwise(ends)]
    means = [_mean(values[each], weights[each]) for each in parts if sum(weights[each]) > 0]
    deviation = statistics.stdev(means) if len(means) > 1 else math.inf
    return Estimate(_mean(values, weights), deviation, max(len(means) - 1, 1))


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    total: float = sum(map(operator.mul, values, weights))
    return total / sum(weights)


def over_runs(estimates: Sequence[Estimate]) -> Estimate:
    """Returns the mean of repeated runs, which varies by what the runs differ by."""
    if len(estimates) == 1:
        return estimates[0]
    means = [each.mean for each in estimates]
    error = statistics.stdev(means) / math.sqrt(len(means))
    return Estimate(statistics.fmean(means), error, len(means) - 1, between=0.0)


def relative_change(
    a: Sequence[Estimate], b: Sequence[Estimate], *, alternating: bool = False
) -> tuple[float, float, float] | None:
    """Returns b / a - 1 and its interval; None unless all means are above 0.

    Args:
        a: Estimate of one run, or of each of its repeats.
        b: Estimates of the other side.
        alternating: Whether runs of both sides took turns. Each is then compared with the one next
            to it (a paired t-test), so that a machine that becomes slower does not matter.
    """
    if min(each.mean for each in (*a, *b)) <= 0:
        return None
    logs = [
        [Estimate(math.log(each.mean), each.deviation / each.mean, *each[2:]) for each in side]
        for side in (a, b)
    ]
    center, low, high = difference(*logs, alternating=alternating)
    low, high = max(low, -LARGEST_LOG), min(high, LARGEST_LOG)
    return math.expm1(center), math.expm1(low), math.expm1(high)


def difference(
    a: Sequence[Estimate], b: Sequence[Estimate], *, alternating: bool = False
) -> tuple[float, float, float]:
    """Returns b - a of shares and its interval; see `relative_change`."""
    if alternating:
        changes = [theirs.mean - ours.mean for ours, theirs in zip(a, b, strict=True)]
        center, freedom = statistics.fmean(changes), float(len(changes) - 1)
        squared = statistics.variance(changes) / len(changes)
    else:
        sides = over_runs(a), over_runs(b)
        center = sides[1].mean - sides[0].mean
        squared = sum(each.deviation**2 + each.between**2 for each in sides)
        spent = sum(each.deviation**4 / each.freedom for each in sides)
        # Welch's t. Without noise in the runs, only `between` is left, which is given.
        freedom = min(squared**2 / spent, 1e6) if spent > 0 else 1e6
    half = student(freedom) * math.sqrt(squared)
    return center, center - half, center + half
