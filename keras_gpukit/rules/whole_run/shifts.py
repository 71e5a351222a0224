"""Lasting changes of a run's figures: step time, input wait, memory, clocks and so on.

A series is cut at its largest steps, each the difference between the medians of the points before
and after it. A series without one may still have drifted: its first third is compared with its last
one. Both have to exceed the noise, which is estimated from differences between neighbouring points,
so it does not depend on the levels.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median
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
_CLEAR = 3.2
"""Least distance between two levels, in units of the noise."""
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


class Level(NamedTuple):
    """Points around one value, from index `begin` up to, but not including, `end`."""

    begin: int
    end: int
    value: float


def series_of(summary: RunSummary, tag: str) -> Series | None:
    """Returns the series of one figure; None if it was not recorded."""
    return next((series for series in summary.series if series.tag == tag), None)


def shifts_of(summary: RunSummary) -> tuple[Shift, ...]:
    """Returns the lasting changes of all of a run's figures, up or down, in order of time.

    Each series is cut where its level changes by more than its noise and by more than the smallest
    change that matters. A change that lasts fewer than three points does not count. A series of
    fewer than ten points has no shifts.
    """
    found = [shift for series in summary.series for shift in shifts_in(summary, series)]
    return tuple(sorted(found, key=lambda shift: shift.elapsed_s))


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


def shifts_in(summary: RunSummary, series: Series) -> Iterator[Shift]:
    """Yields the shifts of one figure, in order."""
    known = _least(summary, series.tag)
    if known is None or (known[1] and min(series.mean, default=0.0) <= 0):
        return
    least, is_ratio = known
    scaled, original = (math.log, math.exp) if is_ratio else (float, float)
    found = _changes(list(map(scaled, series.mean)), scaled(least))
    for kind, begin, end, before, after in found:
        yield Shift(
            series=series.tag,
            unit=unit_of(series.tag),
            kind=kind,
            step=series.step[begin - 1] + 1,
            elapsed_s=series.elapsed_s[begin - 1],
            before=original(before),
            after=original(after),
            end_s=series.elapsed_s[end - 1],
        )


def _changes(
    values: Sequence[float], least: float
) -> tuple[tuple[ShiftKind, int, int, float, float], ...]:
    """Returns kind, begin and end of each change, as indices, and the values before and after."""
    count = len(values)
    if count < FEWEST or max(values) - min(values) < least:
        return ()
    clear = max(least, _CLEAR * max(_LEAST_NOISE * least, *_noises(values)))
    levels = _levels(values, clear)
    if len(levels) > 1:
        return tuple(
            ("level", later.begin, later.end, one.value, later.value)
            for one, later in pairwise(levels)
        )
    third = count // 3
    first = Level(0, third, median(values[:third]))
    last = Level(count - third, count, median(values[-third:]))
    if abs(last.value - first.value) < clear or not _are_apart(values, first, last):
        return ()
    return (("drift", third, count, first.value, last.value),)


def _levels(values: Sequence[float], clear: float) -> tuple[Level, ...]:
    """Cuts a series at its largest steps, as far as the levels between them differ clearly."""
    begins = [0]
    for _, place in sorted(_steps(values, clear), reverse=True):
        if all(abs(place - begin) >= _SHORTEST for begin in begins):
            insort(begins, place)
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
            if abs(later.value - one.value) < clear or not _are_apart(values, one, later)
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
            spread = median(abs(difference - middle) for difference in differences)
            yield _MAD_TO_DEVIATION * spread / 2**0.5


def _steps(values: Sequence[float], clear: float) -> Iterator[tuple[float, int]]:
    """Yields the size and the place of each clear step from a few points to the next few.

    Whether a step is clear is up to the medians, which an outlier does not change. The means are
    the farthest apart at the step itself.
    """
    for place in range(_SHORTEST, len(values) - _SHORTEST + 1):
        before, after = values[place - _SHORTEST : place], values[place : place + _SHORTEST]
        if abs(median(after) - median(before)) >= clear:
            yield abs(fmean(after) - fmean(before)), place


def _are_apart(values: Sequence[float], one: Level, later: Level) -> bool:
    """Whether most points of both levels are on their side of the middle between the levels."""
    middle = (one.value + later.value) / 2
    for side in (one, later):
        own = [(value > middle) == (side.value > middle) for value in values[side.begin : side.end]]
        if sum(own) < max(_FEWEST_ON_SIDE, _MOST_ON_SIDE * len(own)):
            return False
    return True
