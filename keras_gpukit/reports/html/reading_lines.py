"""Lines of readings over the run, with a band from lowest to highest, and their tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from keras_gpukit.records.report import Band, ReadingSeries
from keras_gpukit.reports.html.picture import DASHES, PALETTE, Table, label
from keras_gpukit.reports.html.time_axis import TimeAxis

NO_READINGS = "the run was over before two readings, which come about once a second"


@dataclass(frozen=True)
class Line:
    """One line of a chart: a figure over time."""

    name: str
    series: ReadingSeries
    figure: str

    @property
    def band(self) -> Band:
        """Its values."""
        return self.series.figures[self.figure]

    @property
    def is_known(self) -> bool:
        """Whether it was ever read."""
        return self.band.overall is not None


def are_enough(lines: Sequence[Line]) -> bool:
    """Whether any of them has two points or more."""
    return any(len(line.series.time_s) > 1 for line in lines)


def traces_of(line: Line, place: int, time: TimeAxis, size: float, unit: str) -> Iterator[Any]:
    """The mean as a line, with a band from lowest to highest where they differ."""
    from plotly import graph_objects as go

    name, band, places = line.name, line.band, time.places(line.series)
    color, dash = PALETTE[place % len(PALETTE)], DASHES[place % len(DASHES)]
    if line.series.readings_per_point > 1:
        edge = {"width": 0, "color": color}
        common = {
            "x": places,
            "mode": "lines",
            "line": edge,
            "showlegend": False,
            "legendgroup": name,
        }
        yield go.Scatter(**common, y=scaled(band.low, size), hoverinfo="skip")
        yield go.Scatter(
            **common,
            y=scaled(band.high, size),
            name=f"{label(name)}, highest",
            fill="tonexty",
            fillcolor=_transparent(color),
            hovertemplate=f"%{{y:.3~f}} {unit}",
        )
    yield go.Scatter(
        x=places,
        y=scaled(band.mean, size),
        name=label(name),
        legendgroup=name,
        mode="lines",
        line={"width": 2, "color": color, "dash": dash},
        hovertemplate=f"%{{y:.3~f}} {unit}",
    )


def table_of(lines: Sequence[Line], time: TimeAxis, size: float, unit: str) -> Table:
    """The figures with the first line's times."""
    series = lines[0].series
    figures = [
        (f"{line.name} ({unit})", line.figure, 1 / size) for line in lines if line.series is series
    ]
    return time.table(series, figures)


def tables_of_others(
    lines: Sequence[Line], time: TimeAxis, size: float, unit: str
) -> tuple[tuple[str, Table], ...]:
    """The figures that were read at other times."""
    others = [line for line in lines if line.series is not lines[0].series]
    if not others:
        return ()
    table = table_of(others, time, size, unit)
    return ((others[0].name, table), *tables_of_others(others, time, size, unit))


def scaled(values: Sequence[float | None], size: float) -> list[float | None]:
    """Values in another unit."""
    return [None if value is None else round(value / size, 4) for value in values]


def _transparent(color: str) -> str:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.25)"
