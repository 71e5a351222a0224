"""Cuts a list of costs into consecutive stages, so that the largest is as small as possible."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import inf

# A stage may exceed the smallest possible limit by this fraction if fewer bytes then pass between
# devices: a cut inside a residual block sends two tensors, a cut between blocks sends one.
_SLACK = 0.05


def cut(costs: Sequence[int], stages: int, bytes_at: Sequence[int]) -> tuple[int, ...]:
    """Returns the index of the unit that starts each stage after the first.

    The cost of the largest stage is within 5 % of the smallest possible one. Among such cuts, the
    one that passes the fewest bytes is chosen.

    Args:
        costs: Cost of each unit, 0 or more.
        stages: Number of stages; each has at least one unit.
        bytes_at: For each unit, the bytes that would pass through a cut right before it.
    """
    limit = _smallest_limit(costs, stages)
    return _cheapest(costs, stages, bytes_at, limit + int(limit * _SLACK))


def _smallest_limit(costs: Sequence[int], stages: int) -> int:
    """Returns the smallest possible cost of the largest stage, by bisection over greedy filling."""
    limits = range(max(costs), sum(costs) + 1)
    return limits[
        bisect_left(limits, True, key=lambda limit: _stages_needed(costs, limit) <= stages)
    ]


def _stages_needed(costs: Sequence[int], limit: int) -> int:
    needed, filled = 1, 0
    for cost in costs:
        if filled + cost > limit:
            needed, filled = needed + 1, 0
        filled += cost
    return needed


def _cheapest(
    costs: Sequence[int], stages: int, bytes_at: Sequence[int], limit: int
) -> tuple[int, ...]:
    """Returns the cuts with the fewest bytes and no stage above the limit.

    It uses dynamic programming. Among cuts with equal bytes, the smallest sum of squared stage
    costs wins, which makes the stages even.
    """
    sums = [0, *accumulate(costs)]
    count = len(costs)
    # best[end] = (bytes, evenness, starts of the stages) for the first `end` units.
    best: list[tuple[float, float, tuple[int, ...]]] = [(inf, inf, ())] * (count + 1)
    best[0] = (0, 0, ())
    for _ in range(stages):
        further: list[tuple[float, float, tuple[int, ...]]] = [(inf, inf, ())] * (count + 1)
        for end in range(1, count + 1):
            for start in range(end - 1, -1, -1):
                size = sums[end] - sums[start]
                if size > limit:
                    break
                passed, evenness, starts = best[start]
                crossing = bytes_at[start] if start else 0
                further[end] = min(
                    further[end], (passed + crossing, evenness + size * size, (*starts, start))
                )
        best = further
    return best[count][2][1:]
