"""Events of a run, such as epochs and lasting changes, as lanes below the timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from keras_gpukit.records.event import EventKind, RunEvent
from keras_gpukit.records.finding import Figure
from keras_gpukit.records.names import STEP_TIME
from keras_gpukit.records.report import RunReport, TimeSeries
from keras_gpukit.records.shift import Shift
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, marked_line
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.rules.slowdown.shifts import shifts_of
from keras_gpukit.rules.slowdown.slower_over_time import two_digits

# As a fraction of the axis: shorter events are drawn at this length so that they stay visible.
_SHORTEST = 0.002
# Hover text needs points. A long event has at least one per this fraction of the axis.
_APART = 0.02
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
_OTHER_EPOCH = "#7fbdb7"
COLOR = "#c9a227"
# More labels would cover each other.
_MOST_LABELLED = 6
# As a fraction of the axis: lines left of this have their label on the right, others on the left.
_LEFT = 0.6


@dataclass(frozen=True)
class Mark:
    """An event, as it is drawn in a lane.

    Attributes:
        began_s: Start of the event, in seconds since the Unix epoch.
        duration_s: Duration of the event, in seconds.
        says: Description of the event in its hover text and in the table.
        step: Global step when the event ended (first step of a capture); None if unknown.
        text: Label inside the event's bar, shown if there is room.
    """

    began_s: float
    duration_s: float
    says: str
    step: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Lane:
    """A row of events of one kind, with the colour of their bars."""

    name: str
    color: str
    marks: tuple[Mark, ...]
    second_color: str | None = None


def lanes(run: RunReport) -> tuple[Lane, ...]:
    """Returns the lanes that have events, with the epochs first."""
    found = [
        Lane(
            name,
            color,
            tuple(_mark(each) for each in run.events if each.kind == kind),
            _OTHER_EPOCH if kind == "epoch" else None,
        )
        for kind, (name, color) in _KINDS.items()
    ]
    captures = [each.capture for each in run.captures if each.capture]
    found.append(
        Lane(
            "captures",
            COLORS["input"],
            tuple(
                Mark(
                    each.time_s,
                    each.duration_s,
                    f"capture at step {each.first_step:,}: {each.reason}",
                    each.first_step,
                )
                for each in captures
            ),
        )
    )
    found += [
        Lane(f"GPU {index} throttled", "#c4543f", tuple(_throttled(series)))
        for index, series in run.gpus.items()
    ]
    return tuple(lane for lane in found if lane.marks)


def draw_lane(lane: Lane, place: int, time: TimeAxis) -> Iterator[Any]:
    """Yields a lane's bars on the second y-axis, and invisible points for its hover text."""
    from plotly import graph_objects as go

    shortest_s = _SHORTEST * time.lasted_s
    second = lane.second_color or lane.color
    yield go.Bar(
        base=[time.place(mark.began_s) for mark in lane.marks],
        x=[round(time.length(max(mark.duration_s, shortest_s)), 5) for mark in lane.marks],
        y=[place] * len(lane.marks),
        orientation="h",
        width=0.7,
        yaxis="y2",
        marker={
            "line": {"width": 0},
            "color": [(lane.color, second)[number % 2] for number in range(len(lane.marks))]
            if lane.second_color
            else lane.color,
        },
        text=[mark.text for mark in lane.marks] if any(mark.text for mark in lane.marks) else None,
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        hoverinfo="skip",
        showlegend=False,
    )
    points = [(mark, moment_s) for mark in lane.marks for moment_s in _moments(mark, time)]
    yield go.Scatter(
        x=[time.place(moment_s) for _, moment_s in points],
        y=[place] * len(points),
        text=[mark.says for mark, _ in points],
        yaxis="y2",
        mode="markers",
        marker={"symbol": "square", "size": 10, "color": lane.color},
        showlegend=False,
        name=lane.name,
        hovertemplate="%{text}<extra></extra>",
    )


def event_rows(found: Sequence[Lane], time: TimeAxis, most: int) -> tuple[tuple[str, ...], ...]:
    """Returns table rows of the longest events, in order of their start."""
    marks = [(lane, mark) for lane in found for mark in lane.marks]
    longest = sorted(marks, key=lambda each: -each[1].duration_s)[:most]
    return tuple(
        (
            units.number(time.place(mark.began_s)),
            lane.name,
            mark.says,
            units.duration(mark.duration_s) if mark.duration_s else "",
            "" if mark.step is None else f"{mark.step:,}",
        )
        for lane, mark in sorted(longest, key=lambda each: each[1].began_s)
    )


def _mark(event: RunEvent) -> Mark:
    took = units.duration(event.duration_s)
    if event.count > 1 and event.spent_s is not None:
        what = f"{event.count} × {event.kind}, {units.duration(event.spent_s)} in all"
        return Mark(event.began_s, event.duration_s, what, event.step)
    if event.kind == "epoch" and event.number is not None:
        says = f"epoch {event.number}, {took}"
        return Mark(event.began_s, event.duration_s, says, event.step, f"{event.number}")
    return Mark(event.began_s, event.duration_s, f"{event.kind}, {took}", event.step)


def _throttled(series: TimeSeries) -> Iterator[Mark]:
    """Yields a mark per stretch of throttled readings, from the last reading before it."""
    throttled = series.figures["throttled"].mean
    for is_throttled, those in groupby(range(len(throttled)), lambda each: bool(throttled[each])):
        if is_throttled:
            points = list(those)
            began_s = series.time_s[max(points[0] - 1, 0)]
            duration_s = series.time_s[points[-1]] - began_s
            yield Mark(began_s, duration_s, f"clock throttled, {units.duration(duration_s)}")


def _moments(mark: Mark, time: TimeAxis) -> Iterator[float]:
    # No event lasts longer than its run, unless a clock was set or a record is damaged.
    share = min(mark.duration_s / time.lasted_s, 1.0) if time.lasted_s else 0.0
    count = 1 + int(share / _APART)
    for number in range(count):
        yield mark.began_s + mark.duration_s * (number + 0.5) / count


def shifts_lane(run: RunReport) -> Lane | None:
    """Returns a lane with the run's shifts; None if there are no shifts."""
    began_s = run.began_s or 0.0
    marks = tuple(
        Mark(
            began_s + shift.elapsed_s,
            shift.end_s - shift.elapsed_s if shift.kind == "drift" else 0.0,
            _words(shift),
            shift.step,
        )
        for shift in shifts_of(run.summary)
    )
    return Lane("changes", COLOR, marks) if marks else None


def step_time_lines(run: RunReport, time: TimeAxis) -> list[dict[str, Any]]:
    """Returns vertical lines where the step time changed, labelled with the factor.

    The lines are Plotly shapes; only the largest changes get one.
    """
    shifts: Sequence[Shift] = [
        shift
        for shift in shifts_of(run.summary)
        if shift.series == STEP_TIME and shift.kind == "level"
    ]
    largest = sorted(shifts, key=lambda shift: -abs(shift.after - shift.before))[:_MOST_LABELLED]
    began_s = run.began_s or 0.0
    return [
        marked_line(
            time.place(began_s + shift.elapsed_s),
            _factor(shift),
            "y domain",
            on_right=shift.elapsed_s < _LEFT * time.lasted_s,
            dash="dash",
            color=COLOR,
        )
        for shift in largest
        if shift.before > 0 and shift.after > 0
    ]


def _factor(shift: Shift) -> str:
    if shift.after > shift.before:
        return f"{two_digits(shift.after / shift.before)}× slower"
    return f"{two_digits(shift.before / shift.after)}× faster"


def _words(shift: Shift) -> str:
    name = shift.series.rsplit("_", 1)[0].replace("/", " ").replace("_", " ")
    before, after = (
        units.measured(Figure(name, value, shift.unit)) for value in (shift.before, shift.after)
    )
    if shift.kind == "drift":
        return f"{name}: gradually from {before} to {after}"
    return f"{name}: {before} before, {after} after"
