"""Windows of steps over time: the stretches they cover, and area charts with gaps between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from keras_gpukit.records.report import TimeSeries
from keras_gpukit.reports.html.chart import COLORS
from keras_gpukit.reports.html.time_axis import TimeAxis

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


class WindowAreas:
    """Draws figures of one series of step windows."""

    def __init__(self, series: TimeSeries, time: TimeAxis, yaxis: str = "y") -> None:
        self._points = time.places(series)
        self._yaxis = yaxis
        line = tuple(corners(series))
        self._places = [time.place(corner.time_s) for corner in line]
        self._owners = [corner.point for corner in line]

    def area(self, values: Sequence[float | None], name: str, color: str) -> Any:
        """Returns an area from zero to the values; an unknown value counts as zero.

        Another area, such as the whole step, covers the points with unknown values.
        """
        from plotly import graph_objects as go

        return go.Scatter(
            x=self._places,
            y=[0.0 if point is None else values[point] or 0.0 for point in self._owners],
            name=name,
            legendgroup=name,
            yaxis=self._yaxis,
            mode="lines",
            line={"width": 0, "shape": "vh", "color": color},
            fill="tozeroy",
            fillcolor=color,
            hoverinfo="skip",
        )

    def reading(self, values: Sequence[float | None], name: str, color: str, hover: str) -> Any:
        """Returns points that carry the hover text of an area."""
        from plotly import graph_objects as go

        points = zip(self._points, values, strict=True)
        known = [(place, value) for place, value in points if value is not None]
        return go.Scatter(
            x=[place for place, _ in known],
            y=[value for _, value in known],
            name=name,
            legendgroup=name,
            yaxis=self._yaxis,
            showlegend=False,
            mode="markers",
            marker={"symbol": "square", "size": 10, "color": color},
            hovertemplate=hover,
        )

    def edges(
        self, highest: tuple[str, Sequence[float | None]], lowest: tuple[str, Any], hover: str
    ) -> Iterator[Any]:
        """Yields lines of the highest and the lowest value among merged windows."""
        from plotly import graph_objects as go

        for (name, values), dash in ((highest, "dot"), (lowest, "dash")):
            yield go.Scatter(
                x=self._places,
                y=[None if point is None else values[point] for point in self._owners],
                name=name,
                yaxis=self._yaxis,
                mode="lines",
                line={"width": 1, "shape": "vh", "dash": dash, "color": COLORS["other"]},
                hovertemplate=hover,
            )
