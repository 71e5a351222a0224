"""Charts of several runs: over time, and stage by stage."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.pipeline import StageRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import (
    PALETTE,
    Chart,
    Unknown,
    axis,
    draw,
    draw_bars,
    label,
    row_bars,
    scaled,
)
from keras_gpukit.reports.html.run_names import common_prefix
from keras_gpukit.reports.html.stages_chart import stage_cost
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.windows import corners
from keras_gpukit.reports.tables import Table

# Lines must differ by more than their colour.
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
_STAGES = "Stages of the runs' input pipelines"


def step_times_chart(runs: Sequence[RunReport]) -> Chart | Unknown:
    """Returns a chart of the step times of all runs that have a time series."""
    return _overlaid(runs, "Step times of the runs", "step_time_s", "ms per step", 1e3, "ms")


def stalls_chart(runs: Sequence[RunReport]) -> Chart | Unknown:
    """Returns a chart of the input stalls of all runs that have a time series."""
    return _overlaid(runs, "Input stalls of the runs", "stall_fraction", "input stall, %", 1e2, "%")


def stages_of_runs_chart(runs: Sequence[RunReport]) -> Chart | Unknown:
    """Returns a chart of the stages of the newest runs, the same stage of each side by side."""
    drawn = [run for run in runs if run.has_time_series and run_stages(run)]
    if len(drawn) < 2:
        return Unknown(_STAGES, "fewer than two of the newest runs have a measured pipeline")
    cut = len(common_prefix([run.name for run in runs]))
    names = stage_names_of(drawn)
    stages = [run_stages(run) for run in drawn]
    traces = []
    for place, (run, each) in enumerate(zip(drawn, stages, strict=True)):
        costs_s = [each[name].cost_per_batch_s if name in each else None for name in names]
        name = label(run.name[cut:], 40)
        traces.append(row_bars(name, place, scaled(costs_s, 1e-3), f"{name}: %{{x:.3~f}} ms"))
    height = 110 + (12 + 14 * len(drawn)) * len(names)
    rows = [label(name, 24) for name in names]
    figure = draw_bars(traces, rows, "ms per batch", height=height, barmode="group")
    table = Table(
        ("stage", *(run.name[cut:] for run in drawn)),
        tuple(
            (
                name,
                *(
                    stage_words(run, each.get(name))
                    for run, each in zip(drawn, stages, strict=True)
                ),
            )
            for name in names
        ),
    )
    words = "Time of each stage per batch, from the stage nearest to training back to the sources."
    return Chart(_STAGES, words, figure, table)


def run_stages(run: RunReport) -> dict[str, StageRecord]:
    """Returns the stages of a run's pipeline by name; the second of a name is "map #2"."""
    pipeline = run.summary.pipeline
    stages: dict[str, StageRecord] = {}
    for stage in pipeline.stages if pipeline else ():
        name, number = stage.name, 1
        while name in stages:
            number += 1
            name = f"{stage.name} #{number}"
        stages[name] = stage
    return stages


def stage_names_of(runs: Sequence[RunReport]) -> list[str]:
    """Returns the names of all runs' stages, each next to its neighbours, training's side first."""
    names: list[str] = []
    for run in runs:
        place = 0
        for name in run_stages(run):
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    return names


def stage_words(run: RunReport, stage: StageRecord | None) -> str:
    """Returns a stage's cost and place: "16 ms, 2 parallel, train.py:12"; "" without the stage."""
    if stage is None:
        return ""
    pipeline = run.summary.pipeline
    is_bottleneck = pipeline is not None and stage == pipeline.bottleneck
    told = (stage_cost(stage), stage.location, "bottleneck" if is_bottleneck else None)
    return ", ".join(filter(None, told))


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
