"""Cuts a list of costs into consecutive stages whose largest is as small as it can be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf

# A stage may be this much larger than the best cut allows, where fewer bytes then pass between
# devices: a cut inside of a residual block sends two tensors, one between blocks sends one.
_SLACK = 0.05


def cut(costs: Sequence[int], stages: int, bytes_at: Sequence[int]) -> tuple[int, ...]:
    """Returns where each stage after the first begins.

    The largest stage is within 5 % of the smallest that is possible; of those cuts, it returns one
    over which the fewest bytes pass.

    Args:
        costs: Of each unit, 0 or more.
        stages: How many stages, at least one unit in each.
        bytes_at: For each unit, the bytes that pass a cut right before it.
    """
    limit = _smallest_limit(costs, stages)
    return _cheapest(costs, stages, bytes_at, limit + int(limit * _SLACK))


def _smallest_limit(costs: Sequence[int], stages: int) -> int:
    """Returns the smallest size that no stage exceeds, by bisection over a greedy filling."""
    low, high = max(costs), sum(costs)
    while low < high:
        middle = (low + high) // 2
        if _stages_needed(costs, middle) <= stages:
            high = middle
        else:
            low = middle + 1
    return low


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
    """Returns the cuts with the fewest bytes, no stage above the limit, by dynamic programming.

    Equal bytes: the smaller sum of squared stages, so that what is left is even.
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
