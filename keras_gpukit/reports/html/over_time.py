"""Parts of charts over a run's time: their axis, areas of step windows, and curves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from keras_gpukit.records.event import RunEvent
from keras_gpukit.records.report import Band, RunReport, TimeSeries
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Trace, Values, axis, dashed, label, scaled
from keras_gpukit.reports.tables import Table

TOO_SHORT = "the run has fewer than two windows of steps, which are about a second each"
_UNITS = ((2 * 86400.0, 86400.0, "days"), (7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))
_MOST_ROWS = 20
# In intervals between readings, which come about once a second: a longer pause is a gap.
_MISSING_READINGS = 3.5
# A shorter pause between consecutive windows is jitter of the last step.
_LEAST_GAP_S = 0.1


def time_unit(lasted_s: float) -> tuple[float, str]:
    """Returns a unit that suits a run's duration: its size in seconds, and its name."""
    fitting = ((size, name) for least, size, name in _UNITS if lasted_s >= least)
    return next(fitting, (1.0, "seconds"))


@dataclass(frozen=True)
class TimeAxis:
    """Converts times to positions on the axis of the time since the run's start.

    Attributes:
        began_s: Start of the run, in seconds since the Unix epoch.
        lasted_s: Length of the axis in seconds: from the start to the last reading.
        epochs: Epochs of the run, in their order.
    """

    began_s: float
    lasted_s: float
    epochs: tuple[RunEvent, ...] = ()

    @classmethod
    def of(cls, run: RunReport) -> TimeAxis:
        """Returns the axis of a run."""
        began_s = run.began_s or 0.0
        epochs = tuple(event for event in run.events if event.kind == "epoch")
        return cls(began_s, max((run.ended_s or began_s) - began_s, 0.0), epochs)

    @property
    def unit(self) -> tuple[float, str]:
        """Size of the axis' unit in seconds, and its name."""
        return time_unit(self.lasted_s)

    def place(self, time_s: float) -> float:
        """Returns the position of a time, which is in seconds since the Unix epoch."""
        return round((time_s - self.began_s) / self.unit[0], 4)

    def places(self, series: TimeSeries) -> list[float]:
        """Returns the positions of a series' points."""
        return [self.place(time_s) for time_s in series.time_s]

    def epoch(self, time_s: float) -> str:
        """Returns the epoch at a time: "3", "3 to 5" if epochs are merged, or "?" if unknown."""
        place = bisect_right(self.epochs, time_s, key=lambda epoch: epoch.began_s)
        # The current epoch has no record yet, so it follows the latest recorded one.
        if not place or self.epochs[place - 1].number is None:
            return "1" if self.epochs and not place else "?"
        latest = self.epochs[place - 1]
        number, past = latest.number or 0, time_s > latest.ended_s
        first = number + (latest.count if past else 0)
        return f"{first}" if past or latest.count == 1 else f"{first} to {first + latest.count - 1}"

    def whereabouts(self, series: TimeSeries, level: float) -> Trace:
        """Returns invisible points that add step and epoch to the hover text.

        `level` is their value on the y-axis; it must lie within the axis' range.
        """
        points = zip(series.time_s, series.step, strict=True)
        known = [
            (self.place(at_s), step, self.epoch(at_s)) for at_s, step in points if step is not None
        ]
        has_epochs = any(epoch != "?" for _, _, epoch in known)
        and_epoch = ", epoch %{customdata[1]}" if has_epochs else ""
        return {
            "type": "scatter",
            "x": [place for place, _, _ in known],
            "y": [level] * len(known),
            "customdata": [[step, epoch] if has_epochs else [step] for _, step, epoch in known],
            "mode": "markers",
            "marker": {"color": "rgba(0,0,0,0)"},
            "showlegend": False,
            "hovertemplate": f"step %{{customdata[0]:,}}{and_epoch}<extra></extra>",
        }

    def layout(self) -> dict[str, Any]:
        """Returns the layout of Plotly's x-axis."""
        size_s, name = self.unit
        whole = max(self.lasted_s / size_s, 0.0)
        # A small margin keeps the last point from being cut off.
        return axis(
            f"{name} since the run began",
            range=[0, whole * 1.01 or 1],
            unifiedhovertitle={"text": f"%{{x:.4~g}} {name}"},
        )

    def table(self, series: TimeSeries, figures: Sequence[tuple[str, str, float]]) -> Table:
        """Returns a table of a time series in at most 20 rows: mean, and lowest to highest.

        Args:
            series: The time series.
            figures: Heading, name of the figure in the series, and the size of the heading's unit
                in that of the figure.
        """
        places = self.places(series)
        size = -(-len(places) // _MOST_ROWS)
        spans = [slice(begin, begin + size) for begin in range(0, len(places), size)]
        rows = tuple(
            (
                units.number(places[span][-1]),
                units.known(series.step[span][-1], lambda step: f"{step:,}", ""),
                *(_cell(series.figures[name], span, unit) for _, name, unit in figures),
            )
            for span in spans
        )
        readings = f"{series.readings:,} readings" if series.readings > 1 else "One reading"
        heads = (f"until ({self.unit[1]})", "step", *(heading for heading, _, _ in figures))
        note = f"{readings} in {len(rows)} rows: mean, and in brackets lowest to highest."
        return Table(heads, rows, note)


def _cell(band: Band, span: slice, size: float) -> str:
    part = Band(band.mean[span], band.low[span], band.high[span], band.weight[span])
    if part.overall is None or part.lowest is None or part.highest is None:
        return "unknown"
    known = (part.overall, part.lowest, part.highest)
    mean, low, high = (units.number(value / size) for value in known)
    return mean if low == high else f"{mean} ({low} to {high})"


def corners(series: TimeSeries) -> Iterator[tuple[float, int | None]]:
    """Yields the corners of the line along windows of steps; the line is at zero in gaps.

    A corner is a time, in seconds since the Unix epoch, and the index of the point in the series;
    None if the line is at zero. Between two corners it is vertical first, then horizontal.
    """
    times = series.figures["step_time_s"]
    ended_s: float | None = None
    for point, time_s in enumerate(series.time_s):
        measured_s = (times.mean[point] or 0.0) * times.weight[point]
        # In a point of several windows, only a gap that is long compared to the point is visible.
        is_merged = series.readings_per_point > 1
        jitter_s = measured_s if is_merged else 2 * (times.high[point] or 0.0)
        began_s = time_s - measured_s
        if ended_s is None or began_s - ended_s > max(jitter_s, _LEAST_GAP_S):
            if ended_s is not None:
                yield ended_s, None
            yield began_s, None
            yield began_s, point
        yield time_s, point
        ended_s = time_s
    if ended_s is not None:
        yield ended_s, None


class WindowAreas:
    """Draws figures of one series of step windows."""

    def __init__(self, series: TimeSeries, time: TimeAxis, yaxis: str = "y") -> None:
        self._merged = series.readings_per_point > 1
        self._points = time.places(series)
        self._yaxis = yaxis
        line = tuple(corners(series))
        self._places = [time.place(time_s) for time_s, _ in line]
        self._owners = [point for _, point in line]

    def layer(
        self, top: Values, name: str, color: str, hover: str, own: Values | None = None
    ) -> Iterator[Trace]:
        """Yields an area from zero to `top`, and points with the hover text of the `own` values.

        An unknown value counts as zero: another area, such as the whole step, covers it.
        """
        points = zip(self._points, top if own is None else own, strict=True)
        known = [(place, value) for place, value in points if value is not None]
        common = {
            "type": "scatter",
            **{"name": name, "legendgroup": name, "yaxis": self._yaxis},
        }
        yield {
            **common,
            "x": self._places,
            "y": [0.0 if point is None else top[point] or 0.0 for point in self._owners],
            "mode": "lines",
            "line": {"width": 0, "shape": "vh", "color": color},
            "fill": "tozeroy",
            "fillcolor": color,
            "hoverinfo": "skip",
        }
        yield {
            **common,
            "x": [place for place, _ in known],
            "y": [value for _, value in known],
            "showlegend": False,
            "mode": "markers",
            "marker": {"symbol": "square", "size": 10, "color": color},
            "hovertemplate": hover,
        }

    def edges(self, band: Band, size: float, names: tuple[str, str], hover: str) -> Iterator[Trace]:
        """Yields lines of the highest and the lowest value among merged windows."""
        ends = zip(names, (band.high, band.low), ("dot", "dash"), strict=True)
        for name, end, dash in ends if self._merged else ():
            values = scaled(end, size)
            yield {
                "type": "scatter",
                "x": self._places,
                "y": [None if point is None else values[point] for point in self._owners],
                "name": name,
                "yaxis": self._yaxis,
                "mode": "lines",
                "line": {"width": 1, "shape": "vh", "dash": dash, "color": COLORS["other"]},
                "hovertemplate": hover,
            }


class Curve(NamedTuple):
    """A line of readings: its name, and a figure of a time series."""

    name: str
    series: TimeSeries
    figure: str

    @property
    def band(self) -> Band:
        """Values of the figure over time."""
        return self.series.figures[self.figure]

    @property
    def is_flat(self) -> bool:
        """Whether the figure's range is at most a fiftieth of its highest value."""
        lowest, highest = self.band.lowest, self.band.highest
        return lowest is not None and highest is not None and highest - lowest <= highest / 50

    def draw(self, place: int, time: TimeAxis, size: float, unit: str) -> Iterator[Trace]:
        """Yields the mean as a line, preceded by a band from lowest to highest of merged points."""
        band, places = self.band, time.places(self.series)
        pieces = tuple(_unbroken(self.series))
        low, mean, high = (scaled(values, size) for values in (band.low, band.mean, band.high))
        has_band = self.series.readings_per_point > 1
        line = dashed(place)
        common = {
            "type": "scatter",
            **{"name": label(self.name), "legendgroup": self.name, "mode": "lines"},
        }
        if has_band:
            yield {
                **common,
                "x": _joined([*places[piece], *places[piece][::-1]] for piece in pieces),
                "y": _joined([*high[piece], *low[piece][::-1]] for piece in pieces),
                "line": {"width": 0, "color": line["color"]},
                "fill": "toself",
                "fillcolor": f"{line['color']}40",
                "hoverinfo": "skip",
                "showlegend": False,
            }
        bounds = list(zip(low, high, strict=True))
        yield {
            **common,
            "x": _joined(places[piece] for piece in pieces),
            "y": _joined(mean[piece] for piece in pieces),
            "customdata": _joined(bounds[piece] for piece in pieces) if has_band else None,
            "line": line,
            "hovertemplate": f"%{{y:.4~g}} {unit}"
            + (" (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})" if has_band else ""),
        }


def _unbroken(series: TimeSeries) -> Iterator[slice]:
    """Yields slices of readings without a gap; a process that was stopped leaves a gap."""
    apart_s = [after - before for before, after in pairwise(series.time_s)]
    longest_s = _MISSING_READINGS * max(median(apart_s), 1.0) if apart_s else 0.0
    began = 0
    for place, each_s in enumerate(apart_s, start=1):
        if each_s > longest_s:
            yield slice(began, place)
            began = place
    yield slice(began, len(series.time_s))


def _joined(pieces: Iterable[Sequence[Any]]) -> list[Any]:
    """Joins the pieces of a line, with None between them so that Plotly interrupts it."""
    joined: list[Any] = []
    for piece in pieces:
        joined += [None, *piece] if joined else piece
    return joined
