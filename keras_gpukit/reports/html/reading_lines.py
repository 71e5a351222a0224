"""Line charts of readings over the run, with a band from lowest to highest, and their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from keras_gpukit.records.report import Band, TimeSeries
from keras_gpukit.reports.html.chart import DASHES, PALETTE, Chart, draw, label, scaled
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.windows import unbroken
from keras_gpukit.reports.tables import Table

NO_READINGS = "the run was over before two readings, which come about once a second"


@dataclass(frozen=True)
class Line:
    """A line of a chart: its name, and a figure of a time series."""

    name: str
    series: TimeSeries
    figure: str

    @property
    def band(self) -> Band:
        """Values of the figure over time."""
        return self.series.figures[self.figure]

    @property
    def is_known(self) -> bool:
        """Whether the figure has any reading."""
        return self.band.overall is not None

    @property
    def is_flat(self) -> bool:
        """Whether the figure's range is at most a fiftieth of its highest value."""
        lowest, highest = self.band.lowest, self.band.highest
        return lowest is not None and highest is not None and highest - lowest <= highest / 50


def are_enough(lines: Sequence[Line]) -> bool:
    """Whether any of the lines has at least two points."""
    return any(len(line.series.time_s) > 1 for line in lines)


def traces_of(line: Line, place: int, time: TimeAxis, size: float, unit: str) -> Iterator[Any]:
    """Yields the mean as a line, preceded by a band from lowest to highest if points are merged."""
    from plotly import graph_objects as go

    band, places = line.band, time.places(line.series)
    color, dash = PALETTE[place % len(PALETTE)], DASHES[place % len(DASHES)]
    pieces = tuple(unbroken(line.series))
    low, high = scaled(band.low, size), scaled(band.high, size)
    has_band = line.series.readings_per_point > 1
    common = {"name": label(line.name), "legendgroup": line.name, "mode": "lines"}
    if has_band:
        yield go.Scatter(
            **common,
            x=_joined([*places[piece], *places[piece][::-1]] for piece in pieces),
            y=_joined([*high[piece], *low[piece][::-1]] for piece in pieces),
            line={"width": 0, "color": color},
            fill="toself",
            fillcolor=_transparent(color),
            hoverinfo="skip",
            showlegend=False,
        )
    mean = scaled(band.mean, size)
    bounds = list(zip(low, high, strict=True))
    yield go.Scatter(
        **common,
        x=_joined(places[piece] for piece in pieces),
        y=_joined(mean[piece] for piece in pieces),
        customdata=_joined(bounds[piece] for piece in pieces) if has_band else None,
        line={"width": 2, "color": color, "dash": dash},
        hovertemplate=f"%{{y:.4~g}} {unit}"
        + (" (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})" if has_band else ""),
    )


def lines_chart(
    title: str,
    caption: str,
    lines: Sequence[Line],
    time: TimeAxis,
    yaxis: dict[str, Any],
    *,
    size: float,
    unit: str,
) -> Chart:
    """Returns a chart of lines over time, with their tables.

    The shown `unit` is `size` times the figures' own, such as 2**20 to show bytes in MiB.
    """
    series = lines[0].series
    level = (lines[0].band.overall or 0.0) / size
    traces = [time.whereabouts(series.time_s, series.step, level)]
    for place, line in enumerate(lines):
        traces += traces_of(line, place, time, size, unit)
    return Chart(
        title,
        caption,
        draw(traces, xaxis=time.layout(), yaxis=yaxis),
        _table(lines, time, size, unit),
        _tables_of_others(lines, time, size, unit),
        over_time=True,
    )


def _table(lines: Sequence[Line], time: TimeAxis, size: float, unit: str) -> Table:
    """Returns a table of the lines that share the first line's time series."""
    series = lines[0].series
    figures = [
        (f"{line.name} ({unit})", line.figure, 1 / size) for line in lines if line.series is series
    ]
    return time.table(series, figures)


def _tables_of_others(
    lines: Sequence[Line], time: TimeAxis, size: float, unit: str
) -> tuple[tuple[str, Table], ...]:
    """Returns a table per remaining time series, with the name of its first line as heading."""
    others = [line for line in lines if line.series is not lines[0].series]
    if not others:
        return ()
    table = _table(others, time, size, unit)
    return ((others[0].name, table), *_tables_of_others(others, time, size, unit))


def _joined(pieces: Iterable[Sequence[Any]]) -> list[Any]:
    """Joins the pieces of a line, with None between them so that Plotly interrupts it."""
    joined: list[Any] = []
    for piece in pieces:
        joined += [None, *piece] if joined else piece
    return joined


def _transparent(color: str) -> str:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.25)"
