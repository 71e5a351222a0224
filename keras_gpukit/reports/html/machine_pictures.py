"""Pictures of the machine: how busy GPUs and host were, and their memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from keras_gpukit.records.report import Band, Course, RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.picture import (
    DASHES,
    PALETTE,
    Picture,
    Table,
    Unknown,
    axis,
    draw,
    label,
)
from keras_gpukit.reports.html.time_axis import TimeAxis

GIB = 2**30
NO_READINGS = "the run was over before two readings, which come about once a second"
_BUSY = "How busy GPUs and host were"
_DEVICES = "Memory of the devices"
_HOST = "Memory of the host"


@dataclass(frozen=True)
class _Line:
    """One line of a picture: a figure of a course."""

    name: str
    course: Course
    figure: str

    @property
    def band(self) -> Band:
        return self.course.figures[self.figure]

    @property
    def is_known(self) -> bool:
        return self.band.overall is not None


def utilization_picture(run: RunReport, time: TimeAxis) -> Picture | Unknown:
    """Each GPU's utilization, and that of the host's processors."""
    lines = [
        _Line(f"GPU {index}", course, "utilization_percent") for index, course in run.gpus.items()
    ]
    if run.host:
        lines.append(_Line("all cores", run.host, "cpu_percent"))
        lines.append(_Line("this process", run.host, "process_cpu_percent"))
    lines = [line for line in lines if line.is_known]
    if not _are_enough(lines):
        return Unknown(_BUSY, NO_READINGS)
    traces = [
        trace for place, line in enumerate(lines) for trace in _traces(line, place, time, 1, "%")
    ]
    words = [f"{line.name} {units.number(line.band.overall or 0)} %" for line in lines]
    note = _gpus_unknown(run)
    return Picture(
        _BUSY,
        f"Busy on average: {', '.join(words)}. {note}".strip(),
        draw(traces, xaxis=time.layout(), yaxis=axis("busy, %", range=[0, 101])),
        _table(lines, time, 1, "%"),
        _more(lines, time, 1, "%"),
    )


def device_memory_picture(run: RunReport, time: TimeAxis) -> Picture | Unknown:
    """What TensorFlow's allocators hold, what whole GPUs hold, and the limits."""
    lines: list[_Line] = []
    limits: list[_Line] = []
    for device, course in run.memory.items():
        lines.append(_Line(f"{device} in use", course, "current_bytes"))
        lines.append(_Line(f"{device} peak so far", course, "peak_bytes"))
        limits.append(_Line(f"{device} limit", course, "limit_bytes"))
    for index, course in run.gpus.items():
        lines.append(_Line(f"GPU {index}, all processes", course, "memory_used_bytes"))
        limits.append(_Line(f"GPU {index}, all there is", course, "memory_total_bytes"))
    record = run.summary.memory
    because = (record and record.unknown_because) or NO_READINGS
    words = [
        f"{device}: at most {units.size(course.figures['peak_bytes'].highest or 0)}"
        f"{_of_limit(course.figures['limit_bytes'])} in use at once"
        for device, course in run.memory.items()
    ]
    return _memory(_DEVICES, lines, limits, time, "; ".join(words), because)


def host_memory_picture(run: RunReport, time: TimeAxis) -> Picture | Unknown:
    """What this process holds of the machine's memory."""
    if run.host is None:
        return Unknown(_HOST, NO_READINGS)
    lines = [_Line("this process", run.host, "memory_bytes")]
    limits = [_Line("all there is", run.host, "memory_total_bytes")]
    most = run.host.figures["memory_bytes"].highest or 0
    words = f"This process held at most {units.size(most)}" + _of_limit(
        run.host.figures["memory_total_bytes"]
    )
    return _memory(_HOST, lines, limits, time, words, "psutil does not tell it")


def _memory(
    title: str, lines: list[_Line], limits: list[_Line], time: TimeAxis, words: str, because: str
) -> Picture | Unknown:
    lines = [line for line in lines if line.is_known]
    if not _are_enough(lines):
        return Unknown(title, because)
    limits = [line for line in limits if line.is_known]
    most = max(line.band.highest or 0 for line in (*lines, *limits))
    size, unit = (GIB, "GiB") if most >= GIB else (2**20, "MiB")
    traces = [
        trace
        for place, line in enumerate(lines)
        for trace in _traces(line, place, time, size, unit)
    ]
    traces += [_limit(line, time, size, unit) for line in limits]
    return Picture(
        title,
        f"{words}." if words else "",
        draw(traces, xaxis=time.layout(), yaxis=axis(unit, rangemode="tozero")),
        _table(lines, time, size, unit),
        _more(lines, time, size, unit),
    )


def _traces(line: _Line, place: int, time: TimeAxis, size: float, unit: str) -> Iterator[Any]:
    """The mean as a line, with a band from lowest to highest where they differ."""
    from plotly import graph_objects as go

    name, band, places = line.name, line.band, time.places(line.course)
    color, dash = PALETTE[place % len(PALETTE)], DASHES[place % len(DASHES)]
    if line.course.readings_per_point > 1:
        edge = {"width": 0, "color": color}
        common = {
            "x": places,
            "mode": "lines",
            "line": edge,
            "showlegend": False,
            "legendgroup": name,
        }
        yield go.Scatter(**common, y=_scaled(band.low, size), hoverinfo="skip")
        yield go.Scatter(
            **common,
            y=_scaled(band.high, size),
            name=f"{label(name)}, highest",
            fill="tonexty",
            fillcolor=_transparent(color),
            hovertemplate=f"%{{y:.3~f}} {unit}",
        )
    yield go.Scatter(
        x=places,
        y=_scaled(band.mean, size),
        name=label(name),
        legendgroup=name,
        mode="lines",
        line={"width": 2, "color": color, "dash": dash},
        hovertemplate=f"%{{y:.3~f}} {unit}",
    )


def _limit(line: _Line, time: TimeAxis, size: float, unit: str) -> Any:
    from plotly import graph_objects as go

    places = time.places(line.course)
    return go.Scatter(
        x=[places[0], places[-1]],
        y=_scaled([line.band.highest] * 2, size),
        name=label(line.name),
        mode="lines",
        line={"width": 1, "color": "#7d8790", "dash": "longdashdot"},
        hovertemplate=f"%{{y:.3~f}} {unit}",
    )


def _table(lines: Sequence[_Line], time: TimeAxis, size: float, unit: str) -> Table:
    """Those of the course that the first line belongs to."""
    course = lines[0].course
    figures = [
        (f"{line.name} ({unit})", line.figure, 1 / size) for line in lines if line.course is course
    ]
    return time.table(course, figures)


def _more(
    lines: Sequence[_Line], time: TimeAxis, size: float, unit: str
) -> tuple[tuple[str, Table], ...]:
    """Those of the other courses, which have readings at other moments."""
    others = [line for line in lines if line.course is not lines[0].course]
    if not others:
        return ()
    table = _table(others, time, size, unit)
    return ((others[0].name, table), *_more(others, time, size, unit))


def _of_limit(limits: Band) -> str:
    return "" if limits.highest is None else f" of {units.size(limits.highest)}"


def _gpus_unknown(run: RunReport) -> str:
    record = run.summary.utilization
    if run.gpus or record is None or record.gpus_unknown_because is None:
        return "" if run.gpus else "There was no GPU to read."
    return f"GPUs could not be read: {record.gpus_unknown_because}"


def _are_enough(lines: Sequence[_Line]) -> bool:
    return any(len(line.course.time_s) > 1 for line in lines)


def _scaled(values: Sequence[float | None], size: float) -> list[float | None]:
    return [None if value is None else round(value / size, 4) for value in values]


def _transparent(color: str) -> str:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.25)"
