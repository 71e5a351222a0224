"""The time since a run began, shared by all charts over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_gpukit.records.report import Band, ReadingSeries
from keras_gpukit.reports import units
from keras_gpukit.reports.html.picture import Table, axis

_UNITS = ((2 * 86400.0, 86400.0, "days"), (7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))
_MOST_ROWS = 20


@dataclass(frozen=True)
class TimeAxis:
    """Where on the axis a moment is.

    Attributes:
        began_s: When the run began, in seconds since the Unix epoch.
        lasted_s: Until the last reading.
    """

    began_s: float
    lasted_s: float

    @property
    def _unit(self) -> tuple[float, str]:
        fitting = ((size, name) for least, size, name in _UNITS if self.lasted_s >= least)
        return next(fitting, (1.0, "seconds"))

    def places(self, series: ReadingSeries) -> list[float]:
        """Where the points of a series are."""
        size_s, _ = self._unit
        return [round((time_s - self.began_s) / size_s, 4) for time_s in series.time_s]

    def layout(self) -> dict[str, Any]:
        """Plotly's axis."""
        size_s, name = self._unit
        whole = max(self.lasted_s / size_s, 0.0)
        # A little room, so that the last point is not cut off.
        return axis(f"{name} since the run began", range=[0, whole * 1.01 or 1])

    def title(self) -> str:
        """What its numbers are."""
        return f"until ({self._unit[1]})"

    def table(self, series: ReadingSeries, figures: Sequence[tuple[str, str, float]]) -> Table:
        """The time series in at most twenty rows: mean, and lowest to highest.

        Args:
            series: The time series.
            figures: Heading, the figure's name, and the factor to its heading's unit.
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
