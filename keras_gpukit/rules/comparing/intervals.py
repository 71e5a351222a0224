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
OUTLYING = 5.0
"""Standard deviations from the median, estimated by the median distance from it, from which a part
of a run stands out. Our choice: of runs whose noise is the machine's usual one, few parts do."""
NORMAL_MAD = 0.6745  # median distance from the median of normal noise, in standard deviations
MOST_OUTLYING = 0.25
"""Share of a run's parts that may stand out; more of them are the run's way. Our choice."""
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
    """Mean of a figure over a run, or over repeated runs; of times and rates, of its logarithm.

    Attributes:
        deviation: Standard deviation of the mean.
        freedom: Degrees of freedom of `deviation`.
        between: Standard deviation from one run to the next that a run's windows do not show.
        lower: How much lower the mean may be on a machine that nothing else uses.
        higher: How much higher it may be there.
    """

    mean: float
    deviation: float
    freedom: float
    between: float = BETWEEN_RUNS
    lower: float = 0.0
    higher: float = 0.0


def after_warm_up(
    values: Sequence[float], weights: Sequence[float], least: int = PARTS
) -> tuple[Sequence[float], Sequence[float]] | None:
    """Returns windows after the warm-up; None if they are fewer than `least`, or damaged."""
    skipped = math.ceil(WARM_UP * len(values))
    values, weights = values[skipped:], weights[skipped:]
    if len(values) < least or sum(weights) <= 0 or min(weights) < 0:
        return None
    return values, weights


def estimate(
    values: Sequence[float], weights: Sequence[float], *, of_ratio: bool = False
) -> Estimate | None:
    """Returns the weighted mean of windows; None for a ratio unless it is above 0 in each part.

    A part that others on the machine slowed down as a whole says little about the rest. So parts
    that stand out are trimmed, as many at the other end, with the deviation of a trimmed mean: K.
    K. Yuen, "The two-sample trimmed t for unequal population variances", Biometrika 61 (1974). Of
    fewer than two parts, the deviation is unknown, and infinite.
    """
    ends = [len(values) * part // PARTS for part in range(PARTS + 1)]
    slices = [slice(*bounds) for bounds in itertools.pairwise(ends)]
    parts = [
        (mean(values[span], weights[span]), sum(weights[span]))
        for span in slices
        if sum(weights[span]) > 0
    ]
    if of_ratio and min(parts)[0] <= 0:
        return None
    parts.sort()
    scaled = [math.log(value) if of_ratio else value for value, _ in parts]
    count, cut = len(parts), _outlying(scaled)
    center = mean(*zip(*parts[cut : count - cut], strict=True))
    center, left = math.log(center) if of_ratio else center, count - 2 * cut
    if left < 2:
        return Estimate(center, math.inf, 1)
    clipped = [min(max(value, scaled[cut]), scaled[-1 - cut]) for value in scaled]
    trimmed = math.sqrt(count * (count - 1) / (left * (left - 1)))  # 1 if none are
    return Estimate(center, trimmed * statistics.stdev(clipped), left - 1)


def _outlying(values: Sequence[float]) -> int:
    """Returns how many values stand out at the end that has more of them; 0 if that is usual."""
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values) / NORMAL_MAD
    far = OUTLYING * max(spread, BETWEEN_RUNS)
    count = max(
        sum(value > middle + far for value in values), sum(value < middle - far for value in values)
    )
    return count if count <= MOST_OUTLYING * len(values) else 0


def mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Returns a weighted mean."""
    total: float = sum(map(operator.mul, values, weights))
    return total / sum(weights)


def over_runs(estimates: Sequence[Estimate]) -> Estimate:
    """Returns the mean of repeated runs, which varies by what the runs differ by."""
    if len(estimates) == 1:
        return estimates[0]
    means = [estimate.mean for estimate in estimates]
    error = statistics.stdev(means) / math.sqrt(len(means))
    return Estimate(statistics.fmean(means), error, len(means) - 1, between=0.0)


def relative_change(
    a: Sequence[Estimate], b: Sequence[Estimate], *, alternating: bool = False
) -> tuple[float, float, float]:
    """Returns b / a - 1 and its interval.

    Args:
        a: Estimate of one run, or of each of its repeats, of the logarithm.
        b: Estimates of the other side.
        alternating: Whether runs of both sides took turns. Each is then compared with the one next
            to it (a paired t-test), so that a machine that becomes slower does not matter.
    """
    center, low, high = difference(a, b, alternating=alternating)
    low, high = max(low, -LARGEST_LOG), min(high, LARGEST_LOG)
    return math.expm1(center), math.expm1(low), math.expm1(high)


def difference(
    a: Sequence[Estimate], b: Sequence[Estimate], *, alternating: bool = False
) -> tuple[float, float, float]:
    """Returns b - a and its interval; see `relative_change`.

    What other processes may have taken is a bound, and added to the noise as independent errors
    are: by the root of the sum of the squares.
    """
    low, high = 0.0, 0.0
    if alternating:
        changes = [theirs.mean - ours.mean for ours, theirs in zip(a, b, strict=True)]
        center, freedom = statistics.fmean(changes), float(len(changes) - 1)
        squared = statistics.variance(changes) / len(changes)
    else:
        sides = over_runs(a), over_runs(b)
        center = sides[1].mean - sides[0].mean
        low, high = sides[1].lower + sides[0].higher, sides[1].higher + sides[0].lower
        squared = sum(side.deviation**2 + side.between**2 for side in sides)
        spent = sum(side.deviation**4 / side.freedom for side in sides)
        # Welch's t. Without noise in the runs, only `between` is left, which is given.
        freedom = min(squared**2 / spent, 1e6) if 0 < spent < math.inf else 1e6
    half = student(freedom) * math.sqrt(squared)
    return center, center - math.hypot(half, low), center + math.hypot(half, high)
