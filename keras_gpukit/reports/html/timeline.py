"""The timeline of a run: the step time and its parts, with events in lanes on the same axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from keras_gpukit.records.event import EventKind, RunEvent, Shift
from keras_gpukit.records.finding import Figure
from keras_gpukit.records.names import STEP_TIME
from keras_gpukit.records.report import RunReport, TimeSeries
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import (
    COLORS,
    Chart,
    Omitted,
    Trace,
    Values,
    axis,
    draw,
    names_axis,
    scaled,
    step_time_unit,
)
from keras_gpukit.reports.html.over_time import TOO_SHORT, TimeAxis, WindowAreas
from keras_gpukit.reports.tables import Table
from keras_gpukit.rules.whole_run.shifts import shifts_of
from keras_gpukit.rules.whole_run.slower_over_time import two_digits

_STEPS_HEIGHT, _LANE_HEIGHT, _REST_HEIGHT = 240, 24, 76
_MOST_EVENTS = 100
# As a fraction of the step time: a smaller part between steps would be invisible in the chart.
_LEAST_BETWEEN = 0.02
# As a fraction of the axis: shorter events are drawn at this length so that they stay visible.
_SHORTEST = 0.002
# Hover text needs points. A long event has at least one per this fraction of the axis.
_APART = 0.02
# The width of a digit on a phone, as a fraction of the axis. Numbers are not made smaller.
_DIGIT = 0.03
_KINDS: dict[EventKind, tuple[str, str]] = {
    "epoch": ("epochs", COLORS["compute"]),
    "first step": ("first step", COLORS["first step"]),
    "epoch start": ("epoch starts", COLORS["epoch starts"]),
    "validation": ("validation", COLORS["validation"]),
    "callbacks": ("callbacks", COLORS["callbacks"]),
    "checkpoint": ("checkpoints", "#b06a4f"),
    "stood still": ("suspended", COLORS["other"]),
    "hang": ("hangs", COLORS["input"]),
}
_OTHER_EPOCH, _CHANGES, _THROTTLED = "#7fbdb7", "#c9a227", "#c4543f"
# More labels would cover each other.
_MOST_LABELLED = 6
# As a fraction of the axis: lines left of this have their label on the right, others on the left.
_LEFT = 0.6


class Mark(NamedTuple):
    """An event in a lane: what its hover text and the table say, and the label inside its bar."""

    began_s: float
    duration_s: float
    says: str
    step: int | None = None
    text: str = ""


class Lane(NamedTuple):
    """A row of events of one kind, with the colour of their bars."""

    name: str
    color: str
    marks: tuple[Mark, ...]
    second_color: str | None = None


def timeline_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a chart of the step time, split into its parts if they are known, and the events."""
    if run.steps is None or len(run.steps.time_s) < 2:
        return Omitted(TOO_SHORT)
    times, waits = run.steps.figures["step_time_s"], run.steps.figures["wait_s"]
    size_s, unit = step_time_unit(times.overall)
    hover = f"%{{y:.4~g}} {unit}"
    traces = [*_areas(run.steps, time, size_s, hover)]
    if run.validation is not None:
        values = scaled(run.validation.figures["step_time_s"].mean, size_s)
        areas, color = WindowAreas(run.validation, time), COLORS["validation"]
        traces += areas.layer(values, "validation step", color, hover)
    lanes = [lane for lane in _lanes(run) if lane.marks]
    for place, lane in enumerate(lanes):
        traces += _draw_lane(lane, place, time)
    lanes_height = _LANE_HEIGHT * len(lanes)
    share = lanes_height / (_STEPS_HEIGHT + lanes_height)
    layout: dict[str, Any] = {
        "xaxis": time.layout(),
        "yaxis": axis(f"{unit} per step", rangemode="tozero", domain=[share, 1], nticks=6),
    }
    if lanes:
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis2"] = names_axis([lane.name for lane in lanes], domain=[0, share - 0.02])
        layout |= {"barmode": "overlay", "shapes": _change_lines(run, time)}
    figures = [(f"step ({unit})", "step_time_s", size_s)]
    figures += [(f"wait ({unit})", "wait_s", size_s)] if waits.overall is not None else []
    return Chart(
        _words(run.steps),
        time.table(run.steps, figures),
        draw(traces, height=_STEPS_HEIGHT + lanes_height + _REST_HEIGHT, **layout),
        (("Events", _events_table(lanes, time)),) if lanes else (),
        over_time=True,
    )


def _areas(series: TimeSeries, time: TimeAxis, size_s: float, hover: str) -> Iterator[Trace]:
    times = series.figures["step_time_s"]
    areas = WindowAreas(series, time)
    steps, wait = (scaled(series.figures[name].mean, size_s) for name in ("step_time_s", "wait_s"))
    whole = [step if wait[place] is None else None for place, step in enumerate(steps)]
    split = [None if wait[place] is None else step for place, step in enumerate(steps)]
    is_split = [waited is not None for waited in wait]
    after_wait = _less(steps, wait)
    between = _between(series, size_s)
    work = _less(after_wait, between) if between else after_wait
    yield time.whereabouts(series, level=(times.highest or 0.0) / size_s)
    # Later areas cover earlier ones, so the visible part of each is as high as its time.
    if not all(is_split):
        name = "wait unknown" if any(is_split) else "whole step"
        yield from areas.layer(whole, name, COLORS["other"], hover)
    if any(is_split):
        yield from areas.layer(split, "waiting for input", COLORS["input"], hover, wait)
        if between:
            name = "callbacks between steps"
            yield from areas.layer(after_wait, name, COLORS["callbacks"], hover, between)
        yield from areas.layer(work, "computing", COLORS["compute"], hover)
    yield from areas.edges(times, size_s, ("slowest window", "fastest window"), hover)


def _between(series: TimeSeries, size_s: float) -> list[float | None] | None:
    """Returns the time between steps per point; None if unknown or too small to be visible."""
    between, times = series.figures.get("between_s"), series.figures["step_time_s"]
    if between is None or not between.overall or not times.overall:
        return None
    if between.overall < _LEAST_BETWEEN * times.overall:
        return None
    return [value or 0.0 for value in scaled(between.mean, size_s)]


def _less(whole: Values, part: Values) -> list[float | None]:
    """Subtracts the parts from the whole, not below zero; None if either value is unknown."""
    return [
        None if one is None or other is None else max(round(one - other, 5), 0.0)
        for one, other in zip(whole, part, strict=True)
    ]


def _words(series: TimeSeries) -> str:
    times, waits = series.figures["step_time_s"], series.figures["wait_s"]
    if times.overall is None or times.lowest is None or times.highest is None:
        return ""
    # Epochs' ends cut windows short, so the window's length is a mean.
    window_s = times.overall * sum(times.weight) / series.readings
    waited = (
        "how much of it for input is unknown"
        if waits.overall is None or not times.overall
        else f"{units.duration(waits.overall)} of it waiting for input"
    )
    return (
        f"A step took {units.duration(times.overall)} on average, {waited}. "
        f"In the fastest window of {units.duration(window_s)} a step took "
        f"{units.duration(times.lowest)}, in the slowest {units.duration(times.highest)}."
    )


def _lanes(run: RunReport) -> Iterator[Lane]:
    """Yields the lanes, the epochs first; some may have no events."""
    for kind, (name, color) in _KINDS.items():
        marks = tuple(_mark(event) for event in run.events if event.kind == kind)
        yield Lane(name, color, marks, _OTHER_EPOCH if kind == "epoch" else None)
    captures = []
    for capture in (report.capture for report in run.captures if report.capture):
        says = f"capture at step {capture.first_step:,}: {capture.reason}"
        captures.append(Mark(capture.time_s, capture.duration_s, says, capture.first_step))
    yield Lane("captures", COLORS["input"], tuple(captures))
    for index, series in run.gpus.items():
        yield Lane(f"GPU {index} throttled", _THROTTLED, tuple(_throttled(series)))
    began_s = run.began_s or 0.0
    changes = (
        Mark(
            began_s + shift.elapsed_s,
            shift.end_s - shift.elapsed_s if shift.kind == "drift" else 0.0,
            _change(shift),
            shift.step,
        )
        for shift in shifts_of(run.summary)
    )
    yield Lane("changes", _CHANGES, tuple(changes))


def _mark(event: RunEvent) -> Mark:
    what, text = f"{event.kind}, {units.duration(event.duration_s)}", ""
    if event.count > 1 and event.spent_s is not None:
        what = f"{event.count} × {event.kind}, {units.duration(event.spent_s)} in all"
    elif event.kind == "epoch" and event.number is not None:
        text = f"{event.number}"
        what = f"epoch {text}, {units.duration(event.duration_s)}"
    return Mark(event.began_s, event.duration_s, what, event.step, text)


def _throttled(series: TimeSeries) -> Iterator[Mark]:
    """Yields a mark per interval of throttled readings, from the last reading before it."""
    throttled = series.figures["throttled"].mean
    for is_throttled, those in groupby(range(len(throttled)), lambda point: bool(throttled[point])):
        if is_throttled:
            points = list(those)
            began_s = series.time_s[max(points[0] - 1, 0)]
            duration_s = series.time_s[points[-1]] - began_s
            yield Mark(began_s, duration_s, f"clock throttled, {units.duration(duration_s)}")


def _draw_lane(lane: Lane, place: int, time: TimeAxis) -> Iterator[Trace]:
    """Yields a lane's bars on the second y-axis, and invisible points for its hover text."""
    shortest_s = _SHORTEST * time.lasted_s
    size_s, _ = time.unit
    colors = [(lane.color, lane.second_color)[number % 2] for number in range(len(lane.marks))]
    room_s = _DIGIT * time.lasted_s
    texts = [mark.text * (mark.duration_s >= room_s * len(mark.text)) for mark in lane.marks]
    yield {
        "type": "bar",
        "base": [time.place(mark.began_s) for mark in lane.marks],
        "x": [round(max(mark.duration_s, shortest_s) / size_s, 5) for mark in lane.marks],
        "y": [place] * len(lane.marks),
        "orientation": "h",
        "width": 0.7,
        "yaxis": "y2",
        "marker": {"line": {"width": 0}, "color": colors if lane.second_color else lane.color},
        "text": texts if any(texts) else None,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "hoverinfo": "skip",
        "showlegend": False,
    }
    points = [(mark, moment_s) for mark in lane.marks for moment_s in _moments(mark, time)]
    yield {
        "type": "scatter",
        "x": [time.place(moment_s) for _, moment_s in points],
        "y": [place] * len(points),
        "text": [mark.says for mark, _ in points],
        "yaxis": "y2",
        "mode": "markers",
        "marker": {"symbol": "square", "size": 10, "color": lane.color},
        "showlegend": False,
        "name": lane.name,
        "hovertemplate": "%{text}<extra></extra>",
    }


def _moments(mark: Mark, time: TimeAxis) -> Iterator[float]:
    # No event lasts longer than its run, unless a clock was set or a record is damaged.
    share = min(mark.duration_s / time.lasted_s, 1.0) if time.lasted_s else 0.0
    count = 1 + int(share / _APART)
    for number in range(count):
        yield mark.began_s + mark.duration_s * (number + 0.5) / count


def _events_table(lanes: Sequence[Lane], time: TimeAxis) -> Table:
    """Returns a table of the longest events, in order of their start."""
    marks = [(lane, mark) for lane in lanes for mark in lane.marks]
    longest = sorted(marks, key=lambda pair: -pair[1].duration_s)[:_MOST_EVENTS]
    rows = tuple(
        (
            units.number(time.place(mark.began_s)),
            lane.name,
            mark.says,
            units.duration(mark.duration_s) if mark.duration_s else "",
            units.known(mark.step, lambda step: f"{step:,}", ""),
        )
        for lane, mark in sorted(longest, key=lambda pair: pair[1].began_s)
    )
    is_cut = len(marks) > len(rows)
    note = f"The longest {_MOST_EVENTS} of {len(marks):,}." if is_cut else ""
    return Table((f"at ({time.unit[1]})", "what", "", "took", "step"), rows, note)


def _change_lines(run: RunReport, time: TimeAxis) -> list[dict[str, Any]]:
    """Returns lines, labelled with the factor, at the largest lasting changes of the step time."""
    shifts = [
        shift
        for shift in shifts_of(run.summary)
        if shift.series == STEP_TIME and shift.kind == "level"
    ]
    largest = sorted(shifts, key=lambda shift: -abs(shift.after - shift.before))[:_MOST_LABELLED]
    lines = []
    for shift in largest:
        if shift.before > 0 and shift.after > 0:
            label = f"{two_digits(shift.before / shift.after)}× faster"
            if shift.after > shift.before:
                label = f"{two_digits(shift.after / shift.before)}× slower"
            at = time.place((run.began_s or 0.0) + shift.elapsed_s)
            is_left = shift.elapsed_s < _LEFT * time.lasted_s
            lines.append(
                {
                    "type": "line",
                    **{"x0": at, "x1": at, "yref": "y domain", "y0": 0, "y1": 1},
                    "line": {"width": 1.5, "dash": "dash", "color": _CHANGES},
                    "label": {
                        "text": label,
                        **{"textposition": "end", "textangle": 0, "yanchor": "top"},
                        "xanchor": "left" if is_left else "right",
                    },
                }
            )
    return lines


def _change(shift: Shift) -> str:
    name = shift.series.rsplit("_", 1)[0].replace("/", " ").replace("_", " ")
    ends = (Figure(name, value, shift.unit) for value in (shift.before, shift.after))
    before, after = map(units.measured, ends)
    if shift.kind == "drift":
        return f"{name}: gradually from {before} to {after}"
    return f"{name}: {before} before, {after} after"
