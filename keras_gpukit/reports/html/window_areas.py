"""Area charts of step windows, with gaps where no steps were measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from keras_gpukit.records.report import TimeSeries
from keras_gpukit.reports.html.chart import COLORS
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.windows import corners


class WindowAreas:
    """Draws figures of one series of step windows.

    Args:
        series: The series of step windows.
        time: The time axis.
        yaxis: Plotly's name of the y-axis: "y" or "y2".
    """

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
