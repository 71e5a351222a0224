"""The time axis of a run, shared by all charts over time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_gpukit.records.event import RunEvent
from keras_gpukit.records.report import Band, TimeSeries
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import axis
from keras_gpukit.reports.tables import Table

_UNITS = ((2 * 86400.0, 86400.0, "days"), (7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))
_MOST_ROWS = 20


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

    @property
    def _unit(self) -> tuple[float, str]:
        return time_unit(self.lasted_s)

    def place(self, time_s: float) -> float:
        """Returns the position of a time, which is in seconds since the Unix epoch."""
        return round((time_s - self.began_s) / self._unit[0], 4)

    def places(self, series: TimeSeries) -> list[float]:
        """Returns the positions of a series' points."""
        return [self.place(time_s) for time_s in series.time_s]

    def length(self, duration_s: float) -> float:
        """Converts a duration to the unit of the axis."""
        return duration_s / self._unit[0]

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

    def whereabouts(
        self, times_s: Sequence[float], steps: Sequence[int | None], level: float = 0.0
    ) -> Any:
        """Returns invisible points that add step and epoch to the hover text.

        Args:
            times_s: Times of the points, in seconds since the Unix epoch.
            steps: Global step at each time; None if unknown.
            level: Value on the y-axis; it must lie within the axis' range.
        """
        from plotly import graph_objects as go

        known = [
            (time_s, step) for time_s, step in zip(times_s, steps, strict=True) if step is not None
        ]
        epochs = [self.epoch(time_s) for time_s, _ in known]
        has_epochs = any(epoch != "?" for epoch in epochs)
        return go.Scatter(
            x=[self.place(time_s) for time_s, _ in known],
            y=[level] * len(known),
            customdata=[
                [step, epoch] if has_epochs else [step]
                for (_, step), epoch in zip(known, epochs, strict=True)
            ],
            mode="markers",
            marker={"color": "rgba(0,0,0,0)"},
            showlegend=False,
            hovertemplate="step %{customdata[0]:,}"
            + (", epoch %{customdata[1]}" if has_epochs else "")
            + "<extra></extra>",
        )

    def layout(self) -> dict[str, Any]:
        """Returns the layout of Plotly's x-axis."""
        size_s, name = self._unit
        whole = max(self.lasted_s / size_s, 0.0)
        # A small margin keeps the last point from being cut off.
        return axis(
            f"{name} since the run began",
            range=[0, whole * 1.01 or 1],
            unifiedhovertitle={"text": f"%{{x:.4~g}} {name}"},
        )

    def title(self) -> str:
        """Returns the heading for end times in tables, such as "until (minutes)"."""
        return f"until ({self._unit[1]})"

    def begin_title(self) -> str:
        """Returns the heading for start times in tables, such as "at (minutes)"."""
        return f"at ({self._unit[1]})"

    def table(self, series: TimeSeries, figures: Sequence[tuple[str, str, float]]) -> Table:
        """Returns a table of a time series in at most 20 rows: mean, and lowest to highest.

        Args:
            series: The time series.
            figures: Heading, name of the figure in the series, and the factor that converts it to
                the heading's unit.
        """
        places = self.places(series)
        size = -(-len(places) // _MOST_ROWS)
        spans = [
            range(begin, min(begin + size, len(places))) for begin in range(0, len(places), size)
        ]
        rows = tuple(
            (
                units.number(places[span[-1]]),
                "" if series.step[span[-1]] is None else f"{series.step[span[-1]]:,}",
                *(_cell(series.figures[name], span, factor) for _, name, factor in figures),
            )
            for span in spans
        )
        readings = f"{series.readings:,} readings" if series.readings > 1 else "One reading"
        return Table(
            (self.title(), "step", *(heading for heading, _, _ in figures)),
            rows,
            f"{readings} in {len(rows)} rows: mean, and in brackets lowest to highest.",
        )


def _cell(band: Band, span: range, factor: float) -> str:
    cut = slice(span[0], span[-1] + 1)
    part = Band(band.mean[cut], band.low[cut], band.high[cut], band.weight[cut])
    if part.overall is None or part.lowest is None or part.highest is None:
        return "unknown"
    known = (part.overall, part.lowest, part.highest)
    mean, low, high = (units.number(value * factor) for value in known)
    return mean if low == high else f"{mean} ({low} to {high})"
