"""Whether a series that rises may be a random walk, which rises or falls by chance.

Memory of a healthy process often is a random walk: each reading is the previous one, plus or minus
a little. Such a walk strays far from its start, and many walks stay near a line for a whole run.
"""

from __future__ import annotations

import functools
import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence

MOST_CHANCE = 1 / 64
"""A series counts as growth only if a random walk is at most this likely to rise as evenly; our
choice. Of the walks that `benchmarks/random_walks.py` generates, 0.8 % are mistaken for growth by
epochs and 1.3 % for growth by readings over time; of the walks of one length and kind, at most
2.1 %. Without this test, 5.6 % and 5.3 % were mistaken, and up to 10 %."""
FEWEST_READINGS = 7
"""Least number of readings. They have six differences, which must all be rises. With five, even
that would have a chance of 1 in 32."""
# Medians of pieces leave out the noise, which is large between one reading and the next.
_PIECES = 9


def chance_of_rise(points: Sequence[tuple[float, float]]) -> float:
    """Returns the chance that a random walk without direction rises at least as much as a series.

    In such a walk, falls and rises of the same size are equally likely, whatever the distribution
    of the sizes. The test is Wilcoxon's signed-rank test, exact and one-sided (Wilcoxon 1945,
    "Individual Comparisons by Ranking Methods"), of the differences between the medians of nine
    pieces. All pieces last equally long. So if readings are frequent at first and rare later, a
    short fall at first counts no more than one later.

    Args:
        points: Time of each reading, in any unit, and its value; in order of time.
    """
    levels = [statistics.median(piece) for piece in _pieces(points)]
    steps = [after - before for before, after in itertools.pairwise(levels) if after != before]
    # Among steps of equal size, falls come last. That makes their ranks, and so the chance, larger.
    ranked = sorted(steps, key=lambda step: (abs(step), step < 0))
    fallen = sum(rank for rank, step in enumerate(ranked, start=1) if step < 0)
    as_likely = sum(_ways(len(steps))[: fallen + 1])
    return float(as_likely / 2 ** len(steps))


def _pieces(points: Sequence[tuple[float, float]]) -> list[list[float]]:
    """Groups the readings into pieces of equal duration; if there are few, each is a piece."""
    if len(points) <= _PIECES:
        return [[value] for _, value in points]
    begin, end = points[0][0], points[-1][0]
    pieces: defaultdict[int, list[float]] = defaultdict(list)
    for when, value in points:
        pieces[min(int(_PIECES * (when - begin) / (end - begin)), _PIECES - 1)].append(value)
    return list(pieces.values())


@functools.cache
def _ways(count: int) -> tuple[int, ...]:
    """Returns in how many ways the ranks of falls among `count` steps add up to 0, 1 and so on."""
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for total, number in enumerate(ways):
            longer[total + rank] += number
        ways = longer
    return tuple(ways)
