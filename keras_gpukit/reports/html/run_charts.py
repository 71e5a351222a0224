"""Charts of a run's time, and over it: its parts, the wait for input, the use of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_gpukit.records.report import Band, RunReport, TimeSeries
from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.evidence import capitalized
from keras_gpukit.reports.html.chart import (
    COLORS,
    Chart,
    Omitted,
    axis,
    bar,
    draw,
    scaled,
    unrecorded,
)
from keras_gpukit.reports.html.over_time import TOO_SHORT, Curve, TimeAxis, WindowAreas, time_unit
from keras_gpukit.reports.phrases import account, correction, parts_of, time_spent
from keras_gpukit.reports.tables import Table

_LEAST_LABELLED = 0.06


def wall_time_chart(run: RunReport) -> Chart | Omitted:
    """Returns a chart with one bar for the whole run, split into the parts of its wall time."""
    parts = run.summary.breakdown
    if parts is None or parts.wall_s <= 0:
        return Omitted(unrecorded(run, "it was not measured for every step"))
    named = (
        ("compute", parts.compute_s, "compute", "the step's own work"),
        ("input", parts.input_s, "input", "steps waiting for their batches"),
        ("first step", parts.first_step_s, "first step", "tracing, compiling, first batch"),
        ("epoch starts", parts.epoch_start_s, "epoch starts", "epochs' first batches"),
        ("validation", parts.validation_s, "validation", "validation within fit"),
        ("callbacks", parts.callbacks_s, "callbacks", "callbacks, and Keras' own loop"),
        ("tracing again", parts.tracing_s, "first step", "steps traced or compiled again"),
        ("hangs", parts.hangs_s, "input", "no step ended for a minute or more"),
        ("other", parts.other_s, "other", "Keras at the end of epochs"),
        ("unknown", parts.unknown_s, "other", "steps whose wait is unknown"),
    )
    colored = [(name, spent_s, COLORS[color]) for name, spent_s, color, _ in named]
    rows = tuple(
        (
            name,
            what,
            units.known(spent_s, units.duration),
            "" if spent_s is None else units.percentage(spent_s / parts.wall_s),
        )
        for name, spent_s, _, what in named
        if spent_s != 0  # such as hangs in a run that had none; None is unknown
    )
    table = Table(("part", "what it is", "time", "share"), rows)
    return Chart(f"{time_spent(run.summary) or ''}.", table, _whole_bar(colored, parts.wall_s))


def script_chart(record: ScriptRecord) -> Chart:
    """Returns a chart with one bar for the script, and a table of its calls by line."""
    parts = [part for part in parts_of(record) if part.spent_s > 0]
    colored = [(part.name, part.spent_s, None) for part in parts]
    rows = tuple(
        (part.name, units.duration(part.spent_s), units.percentage(part.spent_s / record.wall_s))
        for part in parts
    )
    calls = tuple(
        (
            f"{call.method}, {call.place}",
            f"{call.count:,}",
            units.known(call.batches, lambda batches: f"{batches:,}"),
            units.duration(call.total_s),
            units.known(call.starting_s, units.duration),
            f"{call.models:,}",
        )
        for call in record.calls
    )
    heads = ("calls", "number", "batches", "time", "of it to start", "models")
    return Chart(
        f"{account(record)}.",
        Table(("part", "time", "share"), rows),
        _whole_bar(colored, record.wall_s),
        shown=("Calls by line of the script", Table(heads, calls)),
    )


def _whole_bar(
    parts: Sequence[tuple[str, float | None, str | None]], wall_s: float
) -> dict[str, Any]:
    """Returns the figure of one bar that is split into parts, each with its colour and pattern."""
    size_s, unit = time_unit(wall_s)
    traces = []
    for place, (name, spent_s, color) in enumerate(parts):
        if not spent_s:
            continue
        took, share = units.duration(spent_s), spent_s / wall_s
        traces.append(
            bar(
                name,
                place,
                color,
                x=[round(spent_s / size_s, 4)],
                y=[0],
                orientation="h",
                text=[f"{name} {took}" if share > _LEAST_LABELLED else ""],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                hovertemplate=f"{name}: {took}, {units.percentage(share)}<extra></extra>",
            )
        )
    return draw(
        traces,
        height=170,
        barmode="stack",
        uniformtext={"mode": "hide", "minsize": 11},  # smaller is not legible
        hovermode="closest",
        xaxis=axis(unit, range=[0, wall_s / size_s]),
        yaxis={"visible": False, "fixedrange": True},
        margin={"l": 8, "r": 16, "t": 12, "b": 48},
    )


# In percent: a stall below this would only be a line on the axis.
_LEAST_STALL = 0.5


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
    worst = units.percentage(stall.highest or 0.0)
    words = f"In the worst window, steps waited {worst} of their time."
    if buffered.overall is None:
        return words
    if not buffered.highest:
        return f"{words} The pipeline's last buffer was always empty."
    mean = units.number(buffered.overall)
    return f"{words} The pipeline's last buffer held {mean} batches on average."


NO_READINGS = "the run was over before two readings, which come about once a second"
_MIB, _GIB = 2**20, 2**30


def utilization_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a chart of the utilization of each GPU and of the host's CPU cores."""
    curves = [
        Curve(f"GPU {index}", series, "utilization_percent") for index, series in run.gpus.items()
    ]
    if run.host:
        curves.append(Curve("all cores", run.host, "cpu_percent"))
        curves.append(Curve("this process", run.host, "process_cpu_percent"))
    curves = _known(curves)
    averages = ", ".join(f"{one.name} {units.number(one.band.overall or 0)} %" for one in curves)
    words = f"Busy on average: {averages}."
    if not run.gpus:
        record = run.summary.utilization
        because = record.gpus_unknown_because if record else None
        words += f" GPUs could not be read: {because}" if because else " No GPU was read."
    flat = f"hardly changed: {averages}" if all(one.is_flat for one in curves) else None
    return _draw(curves, time, words, flat, "busy, %", 1, "%", range=[0, 101])


def device_memory_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a chart of memory in TensorFlow's allocators and on whole GPUs.

    The caption gives the limits, because drawing them would flatten the lines.
    """
    curves: list[Curve] = []
    words: list[str] = []
    for device, series in run.memory.items():
        curves.append(Curve(f"{device} in use", series, "current_bytes"))
        curves.append(Curve(f"{device} peak so far", series, "peak_bytes"))
        words += _at_most(f"{device} held", series, "peak_bytes", "limit_bytes")
    for index, series in run.gpus.items():
        name = f"GPU {index}, all processes"
        curves.append(Curve(name, series, "memory_used_bytes"))
        words += _at_most(f"{name} held", series, "memory_used_bytes", "memory_total_bytes")
    record = run.summary.memory
    return _memory(curves, time, words, (record and record.unknown_because) or NO_READINGS)


def host_memory_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a chart of the host memory that this process holds."""
    if run.host is None:
        return Omitted(NO_READINGS)
    words = _at_most("this process held", run.host, "memory_bytes", "memory_total_bytes")
    return _memory([Curve("this process", run.host, "memory_bytes")], time, words)


def _memory(
    curves: list[Curve], time: TimeAxis, words: list[str], because: str = NO_READINGS
) -> Chart | Omitted:
    curves, text = _known(curves), "; ".join(words)
    most = max((curve.band.highest or 0 for curve in curves), default=0)
    size, unit = (_GIB, "GiB") if most >= _GIB else (_MIB, "MiB")
    flat = f"hardly changed: {text}" if all(curve.is_flat for curve in curves) else None
    return _draw(
        curves, time, f"{capitalized(text)}.", flat, unit, size, unit, because, rangemode="tozero"
    )


def _at_most(what: str, series: TimeSeries, used: str, limit: str) -> list[str]:
    most, total = series.figures[used].highest, series.figures[limit].highest
    if most is None:
        return []
    return [f"{what} at most {units.size(most)}" + (f" of {units.size(total)}" if total else "")]


def _known(curves: list[Curve]) -> list[Curve]:
    return [curve for curve in curves if curve.band.overall is not None]


def _draw(
    curves: list[Curve],
    time: TimeAxis,
    caption: str,
    flat: str | None,
    heading: str,
    size: float,
    unit: str,
    because: str = NO_READINGS,
    **yaxis: object,
) -> Chart | Omitted:
    """Returns a chart of curves over time, with a table for each of their time series.

    `flat` are words in place of flat curves, None if they are not; `because` are words in place of
    curves without two points. The shown `unit` is `size` times as large as that of the figures.
    """
    if not any(len(curve.series.time_s) > 1 for curve in curves):
        return Omitted(because)
    if flat is not None:
        return Omitted(flat, is_flat=True)
    traces = [time.whereabouts(curves[0].series, (curves[0].band.overall or 0.0) / size)]
    tables: dict[int, tuple[str, Table]] = {}  # a time series has a table, named by its first curve
    for place, curve in enumerate(curves):
        traces += curve.draw(place, time, size, unit)
        those = [line for line in curves if line.series is curve.series]
        columns = [(f"{line.name} ({unit})", line.figure, size) for line in those]
        tables.setdefault(id(curve.series), (curve.name, time.table(curve.series, columns)))
    (_, table), *more = tables.values()
    figure = draw(traces, xaxis=time.layout(), yaxis=axis(heading, **yaxis))
    return Chart(caption, table, figure, tuple(more), over_time=True)
