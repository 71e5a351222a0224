"""Lasting changes of a run's figures: step time, input wait, memory, clocks and so on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from keras_gpukit.records.names import EXAMPLE_RATE, INPUT_STALL, INPUT_WAIT, STEP_TIME, unit_of
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.shift import Series, Shift
from keras_gpukit.rules.slowdown.levels import Change, changes

SLOWER = 1.25
"""Smallest ratio of two step times, or of two rates, that counts as a change. Our choice: on a
shared or warm machine they commonly vary by a tenth."""
_LARGER = 1.1  # smallest ratio of two sizes or clocks
_PERCENT = 15.0  # smallest difference of two percentages
_STALL_PERCENT = 10.0
_WAIT_SHARE = 0.10  # of the mean step time
_LEAST_WAIT_MS = 0.25  # a fetch of a batch that is ready takes up to 0.06 ms, see `InputBound`


@dataclass(frozen=True)
class Scale:
    """How the levels of a figure are compared.

    Attributes:
        least: Smallest change that matters, as a ratio or a difference.
        is_ratio: Whether `least` is a ratio.
    """

    least: float
    is_ratio: bool

    @property
    def apply(self) -> Callable[[float], float]:
        """Function that maps levels to a scale on which changes are differences."""
        return math.log if self.is_ratio else float

    @property
    def revert(self) -> Callable[[float], float]:
        """Inverse of `apply`."""
        return math.exp if self.is_ratio else float

    def differ(self, before: float, after: float) -> bool:
        """Whether two levels differ enough to matter."""
        if self.is_ratio:
            return min(before, after) > 0 and abs(math.log(after / before)) >= math.log(self.least)
        return abs(after - before) >= self.least


def series_of(summary: RunSummary, tag: str) -> Series | None:
    """Returns the series of one figure; None if it was not recorded."""
    return next((series for series in summary.series if series.tag == tag), None)


def scale_of(summary: RunSummary, tag: str) -> Scale | None:
    """Returns how the levels of a figure are compared; None if its changes are not judged.

    Not judged are peaks, which only rise, temperature and power, which follow the load, and disk
    reads, which come in bursts.
    """
    if tag in (STEP_TIME, EXAMPLE_RATE):
        return Scale(SLOWER, is_ratio=True)
    if tag == INPUT_WAIT:
        step_ms = 1e3 * (summary.step_time_s or 0.0)
        return Scale(max(_WAIT_SHARE * step_ms, _LEAST_WAIT_MS), is_ratio=False)
    if tag == INPUT_STALL:
        return Scale(_STALL_PERCENT, is_ratio=False)
    unit = unit_of(tag)
    if unit == "%":
        return Scale(_PERCENT, is_ratio=False)
    if unit == "MHz" or (unit == "B" and not tag.endswith("peak_bytes")):
        return Scale(_LARGER, is_ratio=True)
    return None


def shifts_of(summary: RunSummary) -> tuple[Shift, ...]:
    """Finds the lasting changes of a run's figures, up or down.

    Each series is cut where its level changes by more than its noise and by more than the smallest
    change that matters. Gradual changes are drifts. A change that lasts fewer than three points
    does not count. A series of fewer than ten points has no shifts.

    Returns:
        The shifts of all series, in order of time.
    """
    found = [shift for series in summary.series for shift in _shifts(summary, series)]
    return tuple(sorted(found, key=lambda shift: shift.elapsed_s))


def shifts_in(summary: RunSummary, tag: str) -> tuple[Shift, ...]:
    """Returns the shifts of one figure, in order; empty if it was not recorded."""
    series = series_of(summary, tag)
    return () if series is None else _shifts(summary, series)


def _shifts(summary: RunSummary, series: Series) -> tuple[Shift, ...]:
    scale = scale_of(summary, series.tag)
    if scale is None or (scale.is_ratio and min(series.mean, default=0.0) <= 0):
        return ()
    values = tuple(map(scale.apply, series.mean))
    found = changes(values, scale.apply(scale.least), are_logarithms=scale.is_ratio)
    return tuple(_shift(series, change, scale) for change in found)


def _shift(series: Series, change: Change, scale: Scale) -> Shift:
    begin, end = change.begin, change.end - 1
    return Shift(
        series=series.tag,
        unit=unit_of(series.tag),
        kind=change.kind,
        step=(series.step[begin - 1] if begin else 0) + 1,
        elapsed_s=series.elapsed_s[begin - 1] if begin else 0.0,
        before=scale.revert(change.before),
        after=scale.revert(change.after),
        end_step=series.step[end],
        end_s=series.elapsed_s[end],
    )
