"""Several runs compared."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.picture import (
    DASHES,
    PALETTE,
    Picture,
    Table,
    Unknown,
    axis,
    draw,
    known,
    label,
)
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.words import STATES, moment, verdict_line

_UNKNOWN = "unknown"


def runs_table(runs: Sequence[RunReport]) -> Table:
    """One run per row, newest first."""
    heads = (
        "run",
        "verdict",
        "state",
        "began",
        "steps",
        "step time",
        "examples/s",
        "input stall",
        "GPU busy",
        "peak memory",
        "whole run",
    )
    rows = [_row(run) for run in runs]
    # A figure that no run has gets no column, as a GPU's figures on a machine without one.
    kept = [place for place in range(len(heads)) if any(row[place] != _UNKNOWN for row in rows)]
    return Table(
        tuple(heads[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in rows),
    )


def step_times_picture(runs: Sequence[RunReport]) -> Picture | Unknown:
    """The step times of those runs that have them over time, in one chart."""
    return _overlaid(runs, "Step times of the runs", "step_time_s", "ms per step", 1e3, "ms")


def stalls_picture(runs: Sequence[RunReport]) -> Picture | Unknown:
    """Their input stalls."""
    return _overlaid(runs, "Input stalls of the runs", "stall_fraction", "input stall, %", 1e2, "%")


def _row(run: RunReport) -> tuple[str, ...]:
    summary = run.summary
    busy = [
        gpu.utilization_percent
        for gpu in (summary.utilization.gpus if summary.utilization else ())
        if gpu.utilization_percent is not None
    ]
    peaks = summary.memory_peak_bytes.values()
    wall_s = summary.throughput.wall_s if summary.throughput else None
    return (
        run.name,
        verdict_line(run),
        STATES[run.state],
        moment(run.began_s),
        known(summary.steps, units.number),
        known(summary.step_time_s, units.duration),
        known(summary.examples_per_s, units.number),
        known(summary.input_stall_fraction, units.percentage),
        f"{units.number(sum(busy) / len(busy))} %" if busy else _UNKNOWN,
        units.size(max(peaks)) if peaks else _UNKNOWN,
        known(wall_s, units.duration),
    )


def _overlaid(
    runs: Sequence[RunReport], title: str, figure: str, heading: str, factor: float, unit: str
) -> Picture | Unknown:
    from plotly import graph_objects as go

    drawn = [
        (run, run.steps)
        for run in runs
        if run.steps and len(run.steps.time_s) > 1 and run.steps.figures[figure].overall is not None
    ]
    if len(drawn) < 2:
        return Unknown(title, "fewer than two of the newest runs have it over time")
    longest_s = max(series.time_s[-1] - (run.began_s or 0.0) for run, series in drawn)
    traces, rows, means = [], [], []
    for place, (run, series) in enumerate(drawn):
        time = TimeAxis(run.began_s or series.time_s[0], longest_s)
        band = series.figures[figure]
        traces.append(
            go.Scatter(
                x=time.places(series),
                y=[None if value is None else round(value * factor, 5) for value in band.mean],
                name=label(run.name, 40),
                mode="lines",
                line={
                    "width": 2,
                    "color": PALETTE[place % len(PALETTE)],
                    "dash": DASHES[place % len(DASHES)],
                },
                hovertemplate=f"%{{y:.3~f}} {unit}",
            )
        )
        means.append(f"{run.name} {units.number((band.overall or 0.0) * factor)} {unit}")
        values = (band.lowest, band.overall, band.highest)
        rows.append(
            (run.name, *("" if value is None else units.number(value * factor) for value in values))
        )
    drawing = draw(traces, xaxis=time.layout(), yaxis=axis(heading, rangemode="tozero"))
    table = Table(("run", f"lowest ({unit})", f"mean ({unit})", f"highest ({unit})"), tuple(rows))
    return Picture(title, f"On average: {', '.join(means)}.", drawing, table)
