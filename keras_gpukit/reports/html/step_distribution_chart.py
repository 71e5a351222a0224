"""A chart of the distribution of step times, with a table of the slowest steps."""

from __future__ import annotations

import math

from keras_gpukit.records.report import RunReport
from keras_gpukit.records.step_times import BIN_GROWTH, StepTimes
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import (
    COLORS,
    Chart,
    Unknown,
    axis,
    draw,
    marked_line,
    step_time_unit,
)
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.words import not_told
from keras_gpukit.reports.tables import Table

_TITLE = "Distribution of step times"
_MOST_BARS = 60
_MOST_TICKS = 8
_WIDE = 4  # longest by shortest step time


def step_distribution_chart(run: RunReport, time: TimeAxis) -> Chart | Unknown:
    """Returns a histogram of the step times, with a table of the slowest steps."""
    record = run.summary.throughput.step_times if run.summary.throughput else None
    if record is None or not record.counts:
        return Unknown(_TITLE, not_told(run, "no step was measured"))
    if min(record.steps, record.first_bin_s) <= 0:
        return Unknown(_TITLE, "the record has steps that took no time")
    from plotly import graph_objects as go

    bars = _bars(record)
    size_s, unit = step_time_unit(record.quantile_s(0.5))
    edges = [begin_s / size_s for begin_s, _, _ in bars] + [bars[-1][1] / size_s]
    shares = [100 * count / record.steps for *_, count in bars]
    trace = go.Scatter(
        x=[float(f"{edge:.5g}") for edge in edges],
        y=[round(share, 4) for share in (*shares, shares[-1])],
        customdata=[
            [units.duration(begin_s), units.duration(end_s), count]
            for begin_s, end_s, count in (*bars, bars[-1])
        ],
        mode="lines",
        line={"shape": "hv", "width": 1.5, "color": COLORS["compute"]},
        fill="tozeroy",
        hovertemplate="%{customdata[2]:,} steps (%{y:.3~f} %) took %{customdata[0]} "
        "to %{customdata[1]}<extra></extra>",
        showlegend=False,
    )
    marks = (("median", record.quantile_s(0.5), "solid"), ("99 %", record.quantile_s(0.99), "dot"))
    middle = math.sqrt(edges[0] * edges[-1])  # of the logarithmic axis
    figure = draw(
        [trace],
        hovermode="x",
        height=260,
        xaxis=axis(f"step time, {unit}", type="log", tickmode="array", tickvals=_ticks(edges)),
        yaxis=axis("share of the steps, %", rangemode="tozero", nticks=5),
        shapes=[
            marked_line(
                each_s / size_s,
                name,
                "paper",
                on_right=each_s / size_s < middle,
                dash=dash,
                color=COLORS["other"],
            )
            for name, each_s, dash in marks
        ],
    )
    rows = tuple(
        (
            f"{units.duration(begin_s)} to {units.duration(end_s)}",
            f"{count:,}",
            units.percentage(count / record.steps),
        )
        for begin_s, end_s, count in bars
        if count
    )
    return Chart(
        _TITLE,
        _words(record, run.summary.steps),
        figure,
        Table(("step time", "steps", "share"), rows),
        shown=_slowest(record, time),
        shown_title="The slowest steps",
    )


def _bars(record: StepTimes) -> list[tuple[float, float, int]]:
    """Returns start, end and steps of each bar, at most 60; one bar may join several bins."""
    size = -(-len(record.counts) // _MOST_BARS)
    return [
        (
            record.first_bin_s * BIN_GROWTH**first,
            record.first_bin_s * BIN_GROWTH ** (first + size),
            sum(record.counts[first : first + size]),
        )
        for first in range(0, len(record.counts), size)
    ]


def _ticks(edges: list[float]) -> list[float]:
    """Returns round numbers within the chart as ticks: at even distances unless it is wide."""
    lowest, highest = edges[0], edges[-1]
    if highest < _WIDE * lowest:
        size = 10.0 ** math.floor(math.log10(highest - lowest))
        sizes = [size * factor for factor in (0.2, 0.5, 1, 2)]
        apart = next(each for each in sizes if (highest - lowest) / each <= _MOST_TICKS)
        numbers = range(math.ceil(lowest / apart), math.floor(highest / apart) + 1)
        return [float(f"{apart * number:.6g}") for number in numbers]
    decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    for mantissas in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        every = [mantissa * 10.0**decade for decade in decades for mantissa in mantissas]
        within = [float(f"{tick:.3g}") for tick in every if lowest <= tick <= highest]
        if len(within) <= _MOST_TICKS:
            break
    return within


def _slowest(record: StepTimes, time: TimeAxis) -> Table:
    median_s = record.quantile_s(0.5)
    rows = tuple(
        (
            f"{slow.step:,}",
            time.epoch(slow.time_s),
            units.number(time.place(slow.time_s)),
            units.duration(slow.duration_s),
            f"{units.number(slow.duration_s / median_s)}×",
            units.known(slow.wait_s, units.duration),
        )
        for slow in record.slowest
    )
    heads = ("step", "epoch", time.begin_title(), "took", "× median", "input wait")
    return Table(heads, rows, "Without the first of each epoch.")


def _words(record: StepTimes, steps: int | None) -> str:
    median, p95, p99 = (units.duration(record.quantile_s(share)) for share in (0.5, 0.95, 0.99))
    is_whole = steps is None or steps <= record.steps
    left_out = "" if is_whole else f" Of {steps:,} steps, the first of each epoch are not counted."
    return (
        f"Half of the {record.steps:,} measured steps took {median} or less, 95 % {p95} or less, "
        f"99 % {p99} or less.{left_out}"
    )
