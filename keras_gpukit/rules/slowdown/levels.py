"""Where the level of a short series changes, abruptly or gradually.

Optimal partitioning with a robust cost: a series is cut so that the sum of the absolute deviations
from each segment's median, plus a penalty for each cut, is as small as possible. With absolute
deviations, an outlier makes no segment of its own. The penalty is a multiple of the noise, which is
estimated from differences between neighbouring points, so it does not depend on the levels.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keras_gpukit.records.shift import ShiftKind

SHORTEST = 3
"""Least number of points in a segment; one or two outliers are a hiccup, such as a checkpoint."""
FEWEST = 10
"""Least number of points in a series that is cut into segments."""
PENALTY = 6.0
"""Penalty for a cut, in units of the noise."""
CLEAR = 3.2
"""Least distance between two levels, in units of the noise."""
FEWEST_ON_SIDE, MOST_ON_SIDE = 4, 0.85
"""Least number and share of a segment's points on its side of the middle between two levels. Pauses
and other processes raise single points, some of which are neighbours by chance."""
# Distances between compared points. Noise with correlated neighbours shows at larger distances.
_LAGS = (1, 2, 4, 8)
# Least number of points per unit of distance: a cut spoils as many comparisons as the distance.
_POINTS_PER_LAG = 6
_MAD_TO_DEVIATION = 1.4826
# Lower bound of the noise, as a share of the least change that matters; flat series have no noise.
_LEAST_NOISE = 0.1


@dataclass(frozen=True)
class Segment:
    """Points at one level, from index `begin` up to, but not including, `end`."""

    begin: int
    end: int
    level: float


def noise(values: Sequence[float], least: float) -> float:
    """Returns the deviation of a series from its changing level; at least a tenth of `least`."""
    lags = (lag for lag in _LAGS if lag == 1 or lag * _POINTS_PER_LAG <= len(values))
    return max(_LEAST_NOISE * least, *(_deviation(values, lag) for lag in lags))


@functools.lru_cache(maxsize=128)
def segments(values: tuple[float, ...], least: float) -> tuple[Segment, ...]:
    """Cuts a series into stretches of different levels."""
    whole = (Segment(0, len(values), statistics.median(values)),) if values else ()
    if len(values) < FEWEST or not _moves(values, least):
        return whole
    deviation = noise(values, least)
    found = _partition(values, PENALTY * deviation)
    return _joined(values, found, max(least, CLEAR * deviation))


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
            if abs(later.level - one.level) < least or not _are_apart(values, one, later)
        ]
        if not doubtful:
            return tuple(found)
        del begins[min(doubtful)[1]]


def _are_apart(values: Sequence[float], one: Segment, later: Segment) -> bool:
    """Whether most points of both segments are on their side of the middle between the levels."""
    middle = (one.level + later.level) / 2
    for each in (one, later):
        own = [(value > middle) == (each.level > middle) for value in values[each.begin : each.end]]
        if sum(own) < max(FEWEST_ON_SIDE, MOST_ON_SIDE * len(own)):
            return False
    return True


MOSTLY = 0.5
"""Least share of a drift's total change that the fitted line must make itself; our choice."""
_FEWEST_OF_A_LINE = 3 * SHORTEST


@dataclass(frozen=True)
class Change:
    """A change of level.

    Attributes:
        kind: "level" for an abrupt change, "drift" for a gradual one.
        begin: Index of the first point at the new level; for a drift, of its own first point.
        end: Index after the last point of the new level, or of the drift.
        before: Level before the change; if none precedes a drift, the start of its line.
        after: Level after the change; if none follows a drift, the end of its line.
    """

    kind: ShiftKind
    begin: int
    end: int
    before: float
    after: float


def changes(
    values: tuple[float, ...], least: float, *, are_logarithms: bool = False
) -> tuple[Change, ...]:
    """Returns the changes of a series, in order.

    Consecutive level changes in one direction count as one drift if a line fits better than they
    do. The line may stand alone, or have one level before or after it.

    Args:
        values: The series.
        least: The least change that matters.
        are_logarithms: Whether the values are logarithms. If so, a line may also be straight in
            the original values.
    """
    found = segments(values, least)
    penalty = PENALTY * noise(values, least) if len(found) > 1 else 0.0
    return tuple(
        change
        for stairs in _stairs(found)
        for change in _of_stairs(values, stairs, penalty, least, are_logarithms)
    )


def _stairs(found: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    """Yields runs of segments whose levels all rise or all fall; adjacent runs share a segment."""
    first = 0
    for place in range(1, len(found)):
        is_last = place == len(found) - 1
        rises = found[place].level > found[place - 1].level
        if is_last or rises != (found[place + 1].level > found[place].level):
            yield found[first : place + 1]
            first = place


def _of_stairs(
    values: Sequence[float],
    stairs: Sequence[Segment],
    penalty: float,
    least: float,
    is_logarithmic: bool,
) -> Iterator[Change]:
    cost = penalty * (len(stairs) - 1) + sum(_cost(values, each) for each in stairs)
    best: Change | None = None
    # Try a line in place of all segments, of all but the first, or of all but the last.
    for first, last in ((0, 0), (1, 0), (0, 1)):
        sloping, level = stairs[first : len(stairs) - last], stairs[:first] or stairs[-1:]
        begin, end = sloping[0].begin, sloping[-1].end
        if end - begin < _FEWEST_OF_A_LINE:
            continue
        beside = penalty + _cost(values, level[0]) if first or last else 0.0
        for is_exponential in {False, is_logarithmic}:
            line_start, line_finish, line_cost = _line(values[begin:end], is_exponential)
            total = line_cost + penalty + beside
            start = level[0].level if first else line_start
            finish = level[0].level if last else line_finish
            # If the line does not reach the adjacent level, a jump remains between the two.
            leads = (line_finish - line_start) / (finish - start) if finish != start else 0.0
            if total < cost and abs(finish - start) >= least and leads >= MOSTLY:
                cost, best = total, Change("drift", begin, end, start, finish)
    if best is not None:
        yield best
        return
    for before, after in itertools.pairwise(stairs):
        yield Change("level", after.begin, after.end, before.level, after.level)


def _cost(values: Sequence[float], segment: Segment) -> float:
    return sum(abs(value - segment.level) for value in values[segment.begin : segment.end])


def _line(values: Sequence[float], through_exponentials: bool) -> tuple[float, float, float]:
    """Fits a Theil-Sen line; returns its values at both ends, and the sum of its deviations."""
    points = [math.exp(value) for value in values] if through_exponentials else values
    slope = statistics.median(
        (later - one) / (place - start)
        for start, one in enumerate(points)
        for place, later in enumerate(points[start + 1 :], start + 1)
    )
    origin = statistics.median(point - slope * place for place, point in enumerate(points))
    line = [origin + slope * place for place in range(len(points))]
    if through_exponentials:
        if min(line) <= 0:
            return values[0], values[0], math.inf
        line = [math.log(point) for point in line]
    cost = sum(abs(value - point) for value, point in zip(values, line, strict=True))
    return line[0], line[-1], cost
