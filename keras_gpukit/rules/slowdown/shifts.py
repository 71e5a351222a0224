"""Lasting changes of a run's figures: step time, input wait, memory, clocks and so on.

Optimal partitioning with a robust cost: a series is cut so that the sum of the absolute deviations
from each piece's median, plus a penalty for each cut, is as small as possible. With absolute
deviations, an outlier makes no piece of its own. The penalty is a multiple of the noise, which is
estimated from differences between neighbouring points, so it does not depend on the levels.
"""

from __future__ import annotations

import functools
import math
from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from keras_gpukit.records.event import Series, Shift, ShiftKind
from keras_gpukit.records.names import EXAMPLE_RATE, INPUT_STALL, INPUT_WAIT, STEP_TIME, unit_of
from keras_gpukit.records.run import RunSummary

SLOWER = 1.25
"""Smallest ratio of two step times, or of two rates, that counts as a change. Our choice: on a
shared or warm machine they commonly vary by a tenth."""
LARGER = 1.1
"""Smallest ratio of two sizes or clocks."""
_PERCENT = 15.0  # smallest difference of two percentages
_STALL_PERCENT = 10.0
_WAIT_SHARE = 0.10  # of the mean step time
_LEAST_WAIT_MS = 0.25  # a fetch of a batch that is ready takes up to 0.06 ms, see `InputBound`

FEWEST = 10
"""Least number of points in a series that is searched for changes."""
_SHORTEST = 3  # points of a level; one or two outliers are a hiccup, such as a checkpoint
# Penalty for a cut, and least distance between two levels, in units of the noise.
_PENALTY, _CLEAR = 6.0, 3.2
# Least number and share of a level's points on its side of the middle between two levels. Pauses
# and other processes raise single points, some of which are neighbours by chance.
_FEWEST_ON_SIDE, _MOST_ON_SIDE = 4, 0.85
# Distances between compared points. Noise with correlated neighbours shows at larger distances.
_LAGS = (1, 2, 4, 8)
# Least number of points per unit of distance: a cut spoils as many comparisons as the distance.
_POINTS_PER_LAG = 6
_MAD_TO_DEVIATION = 1.4826
# Lower bound of the noise, as a share of the least change that matters; flat series have no noise.
_LEAST_NOISE = 0.1
# Least share of a gradual change that comes within the levels, not from one to the next. Of a line
# it is half, of steps nothing; our choice.
_WITHIN = 0.3


class Level(NamedTuple):
    """Points around one value, from index `begin` up to, but not including, `end`."""

    begin: int
    end: int
    value: float


def series_of(summary: RunSummary, tag: str) -> Series | None:
    """Returns the series of one figure; None if it was not recorded."""
    return next((series for series in summary.series if series.tag == tag), None)


def shifts_of(summary: RunSummary) -> tuple[Shift, ...]:
    """Finds the lasting changes of a run's figures, up or down.

    Each series is cut where its level changes by more than its noise and by more than the smallest
    change that matters. A change that lasts fewer than three points does not count. A series of
    fewer than ten points has no shifts.

    Returns:
        The shifts of all series, in order of time.
    """
    found = [shift for series in summary.series for shift in _shifts(summary, series)]
    return tuple(sorted(found, key=lambda shift: shift.elapsed_s))


def shifts_in(summary: RunSummary, tag: str) -> tuple[Shift, ...]:
    """Returns the shifts of one figure, in order; empty if it was not recorded."""
    series = series_of(summary, tag)
    return () if series is None else tuple(_shifts(summary, series))


def _least(summary: RunSummary, tag: str) -> tuple[float, bool] | None:
    """Returns the smallest change of a figure that matters, and whether it is a ratio.

    None for figures that are not judged: peaks, which only rise, temperature and power, which
    follow the load, and disk reads, which come in bursts.
    """
    unit = unit_of(tag)
    if tag in (STEP_TIME, EXAMPLE_RATE):
        return SLOWER, True
    if tag == INPUT_WAIT:
        return max(_WAIT_SHARE * 1e3 * (summary.step_time_s or 0.0), _LEAST_WAIT_MS), False
    if unit == "%":
        return _STALL_PERCENT if tag == INPUT_STALL else _PERCENT, False
    if unit == "MHz" or (unit == "B" and not tag.endswith("peak_bytes")):
        return LARGER, True
    return None


def _shifts(summary: RunSummary, series: Series) -> Iterator[Shift]:
    known = _least(summary, series.tag)
    if known is None or (known[1] and min(series.mean, default=0.0) <= 0):
        return
    least, is_ratio = known
    scaled, original = (math.log, math.exp) if is_ratio else (float, float)
    values = tuple(map(scaled, series.mean))
    for stairs in _stairs(_levels(values, scaled(least))):
        for kind, begin, end, before, after in _changes(values, stairs):
            yield Shift(
                series=series.tag,
                unit=unit_of(series.tag),
                kind=kind,
                step=(series.step[begin - 1] if begin else 0) + 1,
                elapsed_s=series.elapsed_s[begin - 1] if begin else 0.0,
                before=original(before),
                after=original(after),
                end_step=series.step[end - 1],
                end_s=series.elapsed_s[end - 1],
            )


def _stairs(levels: Sequence[Level]) -> Iterator[Sequence[Level]]:
    """Yields runs of levels that all rise or all fall; adjacent runs share a level."""
    first = 0
    for place in range(1, len(levels)):
        rises = levels[place].value > levels[place - 1].value
        is_last = place == len(levels) - 1
        if is_last or rises != (levels[place + 1].value > levels[place].value):
            yield levels[first : place + 1]
            first = place


def _changes(
    values: Sequence[float], stairs: Sequence[Level]
) -> Iterator[tuple[ShiftKind, int, int, float, float]]:
    """Yields the changes from level to level, or a single one if the values change gradually.

    Yields:
        Kind, begin and end of a change, as indices, and the values before and after it.
    """
    first, last = stairs[0], stairs[-1]
    change = last.value - first.value
    pace = 2 * change / (last.begin + last.end - first.begin - first.end)
    within = [_change_within(values, each) for each in stairs]
    # A flat level at either end is no part of a gradual change.
    starts, ends = (
        2 * within[place] / (stairs[place].end - stairs[place].begin - 1) / pace >= _WITHIN
        for place in (0, -1)
    )
    begin, before = (first.begin, first.value - within[0]) if starts else (first.end, first.value)
    end, after = (last.end, last.value + within[-1]) if ends else (last.begin, last.value)
    if begin < end and sum(within) / change >= _WITHIN:
        yield "drift", begin, end, before, after
    else:
        for one, later in pairwise(stairs):
            yield "level", later.begin, later.end, one.value, later.value


def _change_within(values: Sequence[float], level: Level) -> float:
    """Returns how far values change from a level's middle to its end, by its halves; 0 if short."""
    length = level.end - level.begin
    half = length // 2
    if half < _SHORTEST:
        return 0.0
    first = median(values[level.begin : level.begin + half])
    second = median(values[level.end - half : level.end])
    return (second - first) * (length - 1) / (2 * (length - half))


@functools.lru_cache(maxsize=128)
def _levels(values: tuple[float, ...], least: float) -> tuple[Level, ...]:
    """Cuts a series into stretches of different levels."""
    if len(values) < FEWEST or max(values) - min(values) < least:
        return ()
    noise = max(_LEAST_NOISE * least, *_noises(values))
    begins = _partition(values, _PENALTY * noise)
    # Join adjacent levels that differ too little or by chance, the most similar first.
    while True:
        ends = [*begins[1:], len(values)]
        found = tuple(
            Level(begin, end, median(values[begin:end]))
            for begin, end in zip(begins, ends, strict=True)
        )
        doubtful = [
            (abs(later.value - one.value), place)
            for place, (one, later) in enumerate(pairwise(found), start=1)
            if abs(later.value - one.value) < max(least, _CLEAR * noise)
            or not _are_apart(values, one, later)
        ]
        if not doubtful:
            return found
        del begins[min(doubtful)[1]]


def _noises(values: Sequence[float]) -> Iterator[float]:
    """Yields the deviation of a series from its changing level, by differences at each distance."""
    for lag in _LAGS:
        if lag == 1 or lag * _POINTS_PER_LAG <= len(values):
            differences = [later - one for one, later in zip(values, values[lag:], strict=False)]
            middle = median(differences)
            spread = median(abs(each - middle) for each in differences)
            yield _MAD_TO_DEVIATION * spread / 2**0.5


def _partition(values: Sequence[float], penalty: float) -> list[int]:
    """Returns the indices at which levels begin; the first one is 0."""
    count = len(values)
    best, previous = [0.0] + [math.inf] * count, [0] * (count + 1)
    for begin in range(count - _SHORTEST + 1):
        if best[begin] == math.inf:
            continue
        ordered: list[float] = []
        for end in range(begin + 1, count + 1):
            insort(ordered, values[end - 1])
            half = len(ordered) // 2
            total = best[begin] + sum(ordered[-half:]) - sum(ordered[:half]) + penalty
            if end - begin >= _SHORTEST and total < best[end]:
                best[end], previous[end] = total, begin
    begins, end = [], count
    while end:
        end = previous[end]
        begins.append(end)
    return begins[::-1]


def _are_apart(values: Sequence[float], one: Level, later: Level) -> bool:
    """Whether most points of both levels are on their side of the middle between the levels."""
    middle = (one.value + later.value) / 2
    for each in (one, later):
        own = [(value > middle) == (each.value > middle) for value in values[each.begin : each.end]]
        if sum(own) < max(_FEWEST_ON_SIDE, _MOST_ON_SIDE * len(own)):
            return False
    return True
