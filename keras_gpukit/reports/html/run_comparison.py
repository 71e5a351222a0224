"""Charts that overlay several runs over time."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import (
    PALETTE,
    Chart,
    Table,
    Unknown,
    axis,
    draw,
    label,
    scaled,
)
from keras_gpukit.reports.html.run_names import common_prefix
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.windows import corners

# Lines must differ by more than their colour.
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")


def step_times_chart(runs: Sequence[RunReport]) -> Chart | Unknown:
    """Returns a chart of the step times of all runs that have a time series."""
    return _overlaid(runs, "Step times of the runs", "step_time_s", "ms per step", 1e3, "ms")


def stalls_chart(runs: Sequence[RunReport]) -> Chart | Unknown:
    """Returns a chart of the input stalls of all runs that have a time series."""
    return _overlaid(runs, "Input stalls of the runs", "stall_fraction", "input stall, %", 1e2, "%")


def _overlaid(
    runs: Sequence[RunReport], title: str, figure: str, heading: str, factor: float, unit: str
) -> Chart | Unknown:
    from plotly import graph_objects as go

    drawn = [
        (run, run.steps)
        for run in runs
        if run.steps and len(run.steps.time_s) > 1 and run.steps.figures[figure].overall is not None
    ]
    if len(drawn) < 2:
        return Unknown(title, "fewer than two of the newest runs have it over time")
    longest_s = max(series.time_s[-1] - (run.began_s or 0.0) for run, series in drawn)
    cut = len(common_prefix([run.name for run in runs]))
    traces, rows, means = [], [], []
    for place, (run, series) in enumerate(drawn):
        time = TimeAxis(run.began_s or series.time_s[0], longest_s)
        band = series.figures[figure]
        values = scaled(band.mean, 1 / factor)
        line = tuple(corners(series))
        traces.append(
            go.Scatter(
                x=[time.place(corner.time_s) for corner in line],
                y=[None if corner.point is None else values[corner.point] for corner in line],
                name=label(run.name[cut:], 40),
                # Dashes would hide the short pieces of a line between two epochs.
                mode="lines+markers",
                marker={"symbol": _SYMBOLS[place % len(_SYMBOLS)], "size": 5, "maxdisplayed": 40},
                line={
                    "width": 2,
                    "shape": "vh",
                    "color": PALETTE[place % len(PALETTE)],
                },
                hovertemplate=f"%{{y:.3~f}} {unit}",
            )
        )
        means.append(f"{run.name[cut:]} {units.number((band.overall or 0.0) * factor)} {unit}")
        overall = (band.lowest, band.overall, band.highest)
        texts = ("" if value is None else units.number(value * factor) for value in overall)
        rows.append((run.name[cut:], *texts))
    drawing = draw(traces, xaxis=time.layout(), yaxis=axis(heading, rangemode="tozero"))
    table = Table(("run", f"lowest ({unit})", f"mean ({unit})", f"highest ({unit})"), tuple(rows))
    return Chart(title, f"On average: {', '.join(means)}.", drawing, table)
