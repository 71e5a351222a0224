"""Charts of memory: of the devices with their limits, and of the host."""

from __future__ import annotations

from typing import Any

from keras_gpukit.records.report import Band, RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.picture import Picture, Unknown, axis, draw, label
from keras_gpukit.reports.html.reading_lines import (
    NO_READINGS,
    Line,
    are_enough,
    scaled,
    table_of,
    tables_of_others,
    traces_of,
)
from keras_gpukit.reports.html.time_axis import TimeAxis

GIB = 2**30
_DEVICES = "Memory of the devices"
_HOST = "Memory of the host"


def device_memory_picture(run: RunReport, time: TimeAxis) -> Picture | Unknown:
    """What TensorFlow's allocators hold, what whole GPUs hold, and the limits."""
    lines: list[Line] = []
    limits: list[Line] = []
    for device, series in run.memory.items():
        lines.append(Line(f"{device} in use", series, "current_bytes"))
        lines.append(Line(f"{device} peak so far", series, "peak_bytes"))
        limits.append(Line(f"{device} limit", series, "limit_bytes"))
    for index, series in run.gpus.items():
        lines.append(Line(f"GPU {index}, all processes", series, "memory_used_bytes"))
        limits.append(Line(f"GPU {index}, total", series, "memory_total_bytes"))
    record = run.summary.memory
    because = (record and record.unknown_because) or NO_READINGS
    words = [
        f"{device}: at most {units.size(series.figures['peak_bytes'].highest or 0)}"
        f"{_of_limit(series.figures['limit_bytes'])} in use"
        for device, series in run.memory.items()
    ]
    return _memory(_DEVICES, lines, limits, time, "; ".join(words), because)


def host_memory_picture(run: RunReport, time: TimeAxis) -> Picture | Unknown:
    """What this process holds of the machine's memory."""
    if run.host is None:
        return Unknown(_HOST, NO_READINGS)
    lines = [Line("this process", run.host, "memory_bytes")]
    limits = [Line("total", run.host, "memory_total_bytes")]
    most = run.host.figures["memory_bytes"].highest or 0
    words = f"This process held at most {units.size(most)}" + _of_limit(
        run.host.figures["memory_total_bytes"]
    )
    return _memory(_HOST, lines, limits, time, words, "psutil does not report it")


def _memory(
    title: str, lines: list[Line], limits: list[Line], time: TimeAxis, words: str, because: str
) -> Picture | Unknown:
    lines = [line for line in lines if line.is_known]
    if not are_enough(lines):
        return Unknown(title, because)
    limits = [line for line in limits if line.is_known]
    most = max(line.band.highest or 0 for line in (*lines, *limits))
    size, unit = (GIB, "GiB") if most >= GIB else (2**20, "MiB")
    traces = [
        trace
        for place, line in enumerate(lines)
        for trace in traces_of(line, place, time, size, unit)
    ]
    traces += [_limit(line, time, size, unit) for line in limits]
    return Picture(
        title,
        f"{words}." if words else "",
        draw(traces, xaxis=time.layout(), yaxis=axis(unit, rangemode="tozero")),
        table_of(lines, time, size, unit),
        tables_of_others(lines, time, size, unit),
    )


def _limit(line: Line, time: TimeAxis, size: float, unit: str) -> Any:
    from plotly import graph_objects as go

    places = time.places(line.series)
    return go.Scatter(
        x=[places[0], places[-1]],
        y=scaled([line.band.highest] * 2, size),
        name=label(line.name),
        mode="lines",
        line={"width": 1, "color": "#7d8790", "dash": "longdashdot"},
        hovertemplate=f"%{{y:.3~f}} {unit}",
    )


def _of_limit(limits: Band) -> str:
    return "" if limits.highest is None else f" of {units.size(limits.highest)}"
