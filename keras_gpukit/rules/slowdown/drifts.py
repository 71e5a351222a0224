"""Whether a series changes its level abruptly or gradually."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keras_gpukit.records.shift import ShiftKind
from keras_gpukit.rules.slowdown.change_points import (
    PENALTY,
    SHORTEST,
    Segment,
    least_noise,
    segments,
)

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
    penalty = PENALTY * least_noise(values, least) if len(found) > 1 else 0.0
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
