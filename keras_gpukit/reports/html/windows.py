"""Windows of steps as stretches of time, with gaps where no steps were measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from keras_gpukit.records.report import TimeSeries

# Readings come each second: after so many missing ones there is a gap.
_MISSING_READINGS = 3.5
# Windows that follow one another are apart by the jitter of their last step.
_LEAST_GAP_S = 0.1


@dataclass(frozen=True)
class Corner:
    """A corner of the line along the windows.

    Attributes:
        time_s: When, in seconds since the Unix epoch.
        point: Which point of the series it belongs to; None where the line is at zero.
    """

    time_s: float
    point: int | None


def corners(series: TimeSeries) -> Iterator[Corner]:
    """Yields the corners of the area under the windows, which is zero in gaps.

    From corner to corner the line goes up or down first, then across.
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
    """Yields the pieces of a series of readings, which a stop of the process interrupts."""
    apart_s = [after - before for before, after in pairwise(series.time_s)]
    longest_s = _MISSING_READINGS * max(median(apart_s), 1.0) if apart_s else 0.0
    began = 0
    for place, each_s in enumerate(apart_s, start=1):
        if each_s > longest_s:
            yield slice(began, place)
            began = place
    yield slice(began, len(series.time_s))


def _measured_s(series: TimeSeries, point: int) -> float:
    """How much time the steps of a point took."""
    times = series.figures["step_time_s"]
    return (times.mean[point] or 0.0) * times.weight[point]


def _longest_jitter_s(series: TimeSeries, point: int) -> float:
    if series.readings_per_point > 1:
        # Of several windows in one point, only what is a large part of it shows.
        return max(_measured_s(series, point), _LEAST_GAP_S)
    return max(2 * (series.figures["step_time_s"].high[point] or 0.0), _LEAST_GAP_S)
