"""Where the level of a short series changes: optimal partitioning with a robust cost.

A series is cut into segments so that the sum of the absolute deviations from each segment's median,
plus a penalty for each cut, is as small as possible. With absolute deviations, an outlier makes no
segment of its own. The penalty is a multiple of the noise. The noise is estimated from differences
between neighbouring points, so it does not depend on the levels.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

SHORTEST = 3
"""Least number of points in a segment; one or two outliers are a hiccup, such as a checkpoint."""
FEWEST = 10
"""Least number of points in a series that is cut into segments."""
PENALTY = 6.0
"""Penalty for a cut, in units of the noise."""
CLEAR = 2.75
"""Least distance between two levels, in units of the noise."""
CHANCE = 0.01
"""Highest accepted chance that randomly scattered points look like the two levels of a cut."""
# Distances between compared points. Noise with correlated neighbours shows at larger distances.
_LAGS = (1, 2, 4, 8)
# Least number of points per unit of distance: a cut spoils as many comparisons as the distance.
_POINTS_PER_LAG = 6
_MAD_TO_DEVIATION = 1.4826
# Uncorrelated noise differs as much between neighbours as between any two points. If neighbours
# differ by less than the first share of that, noise gets a larger weight, up to the second number.
# Of series of noise with an autocorrelation of 0.85, 4 % have changes with the weight and 6.5 %
# without it.
_IN_COMMON, _MOST_WEIGHT = 0.55, 1.5
# Lower bound of the noise, as a share of the least change that matters; flat series have no noise.
_LEAST_NOISE = 0.1


@dataclass(frozen=True)
class Segment:
    """Points at one level, from index `begin` up to, but not including, `end`."""

    begin: int
    end: int
    level: float


def noise(values: Sequence[float]) -> float:
    """Returns the standard deviation of a series around its changing level, from differences."""
    return max(
        _deviation(values, lag) for lag in _LAGS if lag == 1 or lag * _POINTS_PER_LAG <= len(values)
    )


def least_noise(values: Sequence[float], least: float) -> float:
    """Returns the noise of a series, limited from below by a tenth of the least change."""
    return max(noise(values), _LEAST_NOISE * least)


@functools.lru_cache(maxsize=128)
def segments(values: tuple[float, ...], least: float) -> tuple[Segment, ...]:
    """Cuts a series into stretches of different levels."""
    whole = (Segment(0, len(values), statistics.median(values)),) if values else ()
    if len(values) < FEWEST or not _moves(values, least):
        return whole
    deviation = least_noise(values, least)
    found = _partition(values, PENALTY * deviation)
    return _joined(values, found, max(least, CLEAR * _weight(values, deviation) * deviation))


def _weight(values: Sequence[float], deviation: float) -> float:
    """Returns the weight of noise, 1 to 1.5: correlated noise stays away from its level longer."""
    return min(max(_IN_COMMON * deviation / max(_deviation(values, 1), 1e-12), 1.0), _MOST_WEIGHT)


def _moves(values: Sequence[float], least: float) -> bool:
    """Whether any two levels differ enough; most series need no further work."""
    medians = [
        statistics.median(values[begin : begin + SHORTEST])
        for begin in range(len(values) - SHORTEST + 1)
    ]
    return max(medians) - min(medians) >= least


def _deviation(values: Sequence[float], lag: int) -> float:
    differences = [later - one for one, later in zip(values, values[lag:], strict=False)]
    middle = statistics.median(differences)
    spread = statistics.median(abs(each - middle) for each in differences)
    return _MAD_TO_DEVIATION * spread / 2**0.5


def _partition(values: Sequence[float], penalty: float) -> list[int]:
    """Returns the indices at which segments begin; the first one is 0."""
    count = len(values)
    best, previous = [0.0] + [float("inf")] * count, [0] * (count + 1)
    for begin in range(count - SHORTEST + 1):
        if best[begin] == float("inf"):
            continue
        ordered: list[float] = []
        for end in range(begin + 1, count + 1):
            insort(ordered, values[end - 1])
            if end - begin < SHORTEST:
                continue
            half = len(ordered) // 2
            cost = sum(ordered[-half:]) - sum(ordered[:half])
            total = best[begin] + cost + penalty
            if total < best[end]:
                best[end], previous[end] = total, begin
    begins, end = [], count
    while end:
        end = previous[end]
        begins.append(end)
    return begins[::-1]


def _joined(values: Sequence[float], begins: list[int], least: float) -> tuple[Segment, ...]:
    """Joins adjacent segments that differ too little or by chance, the most similar first."""
    while True:
        ends = [*begins[1:], len(values)]
        found = [
            Segment(begin, end, statistics.median(values[begin:end]))
            for begin, end in zip(begins, ends, strict=True)
        ]
        doubtful = [
            (abs(later.level - one.level), place)
            for place, (one, later) in enumerate(itertools.pairwise(found), start=1)
            if abs(later.level - one.level) < least or not _is_no_chance(values, one, later)
        ]
        if not doubtful:
            return tuple(found)
        del begins[min(doubtful)[1]]


def _is_no_chance(values: Sequence[float], one: Segment, later: Segment) -> bool:
    """Whether points above the middle between two levels form runs and are not just scattered.

    Pauses and other processes raise single points, some of which are neighbours by chance. The more
    such points there are, the longer their runs must be: the Wald-Wolfowitz runs test.
    """
    middle = (one.level + later.level) / 2
    is_above = [value > middle for value in values]
    for each in (one, later):
        own = is_above[each.begin : each.end].count(each.level > middle)
        if own < SHORTEST:
            return False
    runs = 1 + sum(before != after for before, after in itertools.pairwise(is_above))
    above = sum(is_above)
    return _chance_of_runs(runs, above, len(values) - above) < CHANCE


def _chance_of_runs(most: int, count: int, others: int) -> float:
    """Returns the chance that so many points and others, shuffled, form at most `most` runs."""
    ways = 0
    for runs in range(2, most + 1):
        half = runs // 2
        if runs % 2:
            ways += math.comb(count - 1, half) * math.comb(others - 1, half - 1)
            ways += math.comb(count - 1, half - 1) * math.comb(others - 1, half)
        else:
            ways += 2 * math.comb(count - 1, half - 1) * math.comb(others - 1, half - 1)
    return ways / math.comb(count + others, count)
