"""Charts of a run's steps: the distribution of their times, and their wait for input."""

from __future__ import annotations

import math
from typing import Any

from keras_gpukit.records.report import Band, RunReport
from keras_gpukit.records.step_times import BIN_GROWTH, StepTimes
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import (
    COLORS,
    Chart,
    Omitted,
    axis,
    draw,
    marked_line,
    scaled,
    step_time_unit,
)
from keras_gpukit.reports.html.over_time import TOO_SHORT, TimeAxis, WindowAreas
from keras_gpukit.reports.html.words import unrecorded
from keras_gpukit.reports.phrases import correction
from keras_gpukit.reports.tables import Table

_MOST_BARS = 60
_MOST_TICKS = 8
# In percent: a stall below this would only be a line on the axis.
_LEAST_STALL = 0.5


def distribution_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a histogram of the step times, with a table of the slowest steps."""
    record = run.summary.throughput.step_times if run.summary.throughput else None
    if record is None or not record.counts:
        return Omitted(unrecorded(run, "no step was measured"))
    if min(record.steps, record.first_bin_s) <= 0:
        return Omitted("the record has steps that took no time")
    bars = _bars(record)
    size_s, unit = step_time_unit(record.quantile_s(0.5))
    edges = [begin_s / size_s for begin_s, _, _ in bars] + [bars[-1][1] / size_s]
    # The line goes on to the end of the last bar.
    ends = [
        (units.duration(begin_s), units.duration(end_s), count)
        for begin_s, end_s, count in (*bars, bars[-1])
    ]
    trace = {
        "type": "scatter",
        "x": [float(f"{edge:.5g}") for edge in edges],
        "y": [round(100 * count / record.steps, 4) for *_, count in ends],
        "customdata": ends,
        "mode": "lines",
        "line": {"shape": "hv", "width": 1.5, "color": COLORS["compute"]},
        "fill": "tozeroy",
        "hovertemplate": "%{customdata[2]:,} steps (%{y:.3~f} %) took %{customdata[0]} "
        "to %{customdata[1]}<extra></extra>",
        "showlegend": False,
    }
    marks = (("median", record.quantile_s(0.5), "solid"), ("99 %", record.quantile_s(0.99), "dot"))
    middle = math.sqrt(edges[0] * edges[-1])  # of the logarithmic axis
    shapes = [
        marked_line(
            each_s / size_s,
            name,
            "paper",
            on_right=each_s / size_s < middle,
            dash=dash,
            color=COLORS["other"],
        )
        for name, each_s, dash in marks
    ]
    figure = draw(
        [trace],
        hovermode="x",
        height=260,
        xaxis=axis(f"step time, {unit}", type="log", **_ticks(edges[0], edges[-1])),
        yaxis=axis("share of the steps, %", rangemode="tozero", nticks=5),
        shapes=shapes,
    )
    rows = tuple(
        (f"{begin} to {end}", f"{count:,}", units.percentage(count / record.steps))
        for begin, end, count in ends[:-1]
        if count
    )
    return Chart(
        _words(record, run.summary.steps),
        Table(("step time", "steps", "share"), rows),
        figure,
        shown=("The slowest steps", _slowest(record, time)),
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


def _ticks(lowest: float, highest: float) -> dict[str, Any]:
    """Returns an axis' ticks: across decades at round numbers, which Plotly would write small."""
    if highest < 10 * lowest:
        return {"nticks": _MOST_TICKS}
    decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        every = [mantissa * 10.0**decade for decade in decades for mantissa in mantissas]
        within = [float(f"{tick:.3g}") for tick in every if lowest <= tick <= highest]
        if len(within) <= _MOST_TICKS:
            break
    return {"tickmode": "array", "tickvals": within}


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


def input_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a chart of the input stall of steps and of the fill of the pipeline's last buffer."""
    series = run.steps
    if series is None or len(series.time_s) < 2:
        return Omitted(TOO_SHORT)
    stall, buffered = series.figures["stall_fraction"], series.figures["buffered_batches"]
    if stall.overall is None:
        record = run.summary.input
        return Omitted((record and record.unknown_because) or "it was not measured")
    highest = 100 * (stall.highest or 0.0)
    if highest < _LEAST_STALL:
        words = f"the wait for input stayed below {_LEAST_STALL} % of the step time"
        return Omitted(words, is_flat=True)
    areas, hover = WindowAreas(series, time), "%{y:.1f} %"
    traces = [
        time.whereabouts(series, highest),
        *areas.layer(scaled(stall.mean, 1e-2), "input stall", COLORS["input"], hover),
        *areas.edges(stall, 1e-2, ("worst window", "best window"), hover),
    ]
    layout = {"xaxis": time.layout(), "yaxis": axis("input stall, %", range=[0, 101])}
    figures = [("stall (%)", "stall_fraction", 1e-2)]
    has_buffer = bool(buffered.highest)
    if has_buffer:
        below, hover = WindowAreas(series, time, "y2"), "%{y:.2~f}"
        traces += below.layer(buffered.mean, "batches buffered", COLORS["other"], hover)
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis"]["domain"] = [0.42, 1]
        layout["yaxis2"] = axis("batches", domain=[0, 0.3], rangemode="tozero", nticks=4)
        figures.append(("buffered batches", "buffered_batches", 1.0))
    return Chart(
        " ".join(filter(None, (_stall_words(stall, buffered), correction(run.summary)))),
        time.table(series, figures),
        draw(traces, height=380 if has_buffer else 300, **layout),
        over_time=True,
    )


def _stall_words(stall: Band, buffered: Band) -> str:
    words = (
        f"Steps spent {units.percentage(stall.overall or 0.0)} of their time waiting for their "
        f"next batch; in the worst window {units.percentage(stall.highest or 0.0)}."
    )
    if buffered.overall is None:
        return words
    if not buffered.highest:
        return f"{words} The pipeline's last buffer was always empty."
    mean = units.number(buffered.overall)
    return f"{words} The pipeline's last buffer held {mean} batches on average."
