"""Whether a series that rises may be a random walk, which rises or falls by chance.

Memory of a healthy process often is one: each reading is the one before, and a little more or less.
Such a walk strays far from its start, and many of them lie near a line for as long as a run takes.
"""

from __future__ import annotations

import functools
import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence

MOST_CHANCE = 1 / 64
"""How likely a random walk may rise as evenly as what counts as growth; our choice. Of the walks
that `benchmarks/random_walks.py` makes up, 0.8 % are taken for growth by epochs and 1.3 % by
readings over time; of those of one length and kind 2.1 % at most. Without this test it was 5.6 %
and 5.3 %, and up to 10 %."""
FEWEST_READINGS = 7
"""Six differences, all of which must be rises: of fewer even this has a chance of 1 in 32."""
_PIECES = 9
# Medians of pieces leave noise out, which a step from one reading to the next is full of.


def chance_of_rise(points: Sequence[tuple[float, float]]) -> float:
    """Returns how likely a random walk without a direction rises like this series, or more so.

    The walk's steps are as likely to be falls as rises of the same size, whatever their
    distribution: Wilcoxon's signed-rank test, exact and one-sided (Wilcoxon 1945, "Individual
    Comparisons by Ranking Methods"), of the differences between the medians of nine pieces. These
    take as long as each other: where readings come often at first and seldom later, what falls for
    a moment counts for no more.

    Args:
        points: When the series was read, in any unit, and what was read; in the order of time.
    """
    levels = [statistics.median(piece) for piece in _pieces(points)]
    steps = [after - before for before, after in itertools.pairwise(levels) if after != before]
    # Of steps of one size the falls come last, which makes their ranks, and so the chance, larger.
    ranked = sorted(steps, key=lambda step: (abs(step), step < 0))
    fallen = sum(rank for rank, step in enumerate(ranked, start=1) if step < 0)
    as_likely = sum(_ways(len(steps))[: fallen + 1])
    return float(as_likely / 2 ** len(steps))


def _pieces(points: Sequence[tuple[float, float]]) -> list[list[float]]:
    """The readings by the time in which they fall; of few readings each is a piece."""
    if len(points) <= _PIECES:
        return [[value] for _, value in points]
    begin, end = points[0][0], points[-1][0]
    pieces: defaultdict[int, list[float]] = defaultdict(list)
    for when, value in points:
        pieces[min(int(_PIECES * (when - begin) / (end - begin)), _PIECES - 1)].append(value)
    return list(pieces.values())


@functools.cache
def _ways(count: int) -> tuple[int, ...]:
    """In how many ways the falls among so many steps have each sum of ranks, from 0."""
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for total, number in enumerate(ways):
            longer[total + rank] += number
        ways = longer
    return tuple(ways)
