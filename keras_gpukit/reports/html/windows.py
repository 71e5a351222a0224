"""The stretches of time that step windows cover, and the gaps between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from keras_gpukit.records.report import TimeSeries

# In intervals between readings, which come about once a second: a longer pause is a gap.
_MISSING_READINGS = 3.5
# A shorter pause between consecutive windows is jitter of the last step.
_LEAST_GAP_S = 0.1


@dataclass(frozen=True)
class Corner:
    """A corner of the line along the windows.

    Attributes:
        time_s: Time of the corner, in seconds since the Unix epoch.
        point: Index of the point in the series; None if the line is at zero.
    """

    time_s: float
    point: int | None


def corners(series: TimeSeries) -> Iterator[Corner]:
    """Yields the corners of the line along the windows; the line is at zero in gaps.

    Between two corners the line is vertical first, then horizontal.
    """
    ended_s: float | None = None
    for point, time_s in enumerate(series.time_s):
        began_s = time_s - _measured_s(series, point)
        if ended_s is None or began_s - ended_s > _longest_jitter_s(series, point):
            if ended_s is not None:
                yield Corner(ended_s, None)
            yield Corner(began_s, None)
            yield Corner(began_s, point)
        yield Corner(time_s, point)
        ended_s = time_s
    if ended_s is not None:
        yield Corner(ended_s, None)


def unbroken(series: TimeSeries) -> Iterator[slice]:
    """Yields slices of readings without a gap; a process that was stopped leaves a gap."""
    apart_s = [after - before for before, after in pairwise(series.time_s)]
    longest_s = _MISSING_READINGS * max(median(apart_s), 1.0) if apart_s else 0.0
    began = 0
    for place, each_s in enumerate(apart_s, start=1):
        if each_s > longest_s:
            yield slice(began, place)
            began = place
    yield slice(began, len(series.time_s))


def _measured_s(series: TimeSeries, point: int) -> float:
    """Returns the total duration of a point's steps."""
    times = series.figures["step_time_s"]
    return (times.mean[point] or 0.0) * times.weight[point]


def _longest_jitter_s(series: TimeSeries, point: int) -> float:
    if series.readings_per_point > 1:
        # In a point of several windows, only a gap that is long compared to the point is visible.
        return max(_measured_s(series, point), _LEAST_GAP_S)
    return max(2 * (series.figures["step_time_s"].high[point] or 0.0), _LEAST_GAP_S)
