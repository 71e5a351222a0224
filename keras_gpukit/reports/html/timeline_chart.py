"""The timeline of a run: the step time and its parts, with events on the same axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from keras_gpukit.records.report import RunReport, TimeSeries
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import (
    COLORS,
    Chart,
    Unknown,
    axis,
    draw,
    names_axis,
    scaled,
    step_time_unit,
)
from keras_gpukit.reports.html.event_lanes import (
    Lane,
    draw_lane,
    event_rows,
    lanes,
    shifts_lane,
    step_time_lines,
)
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.windows import WindowAreas
from keras_gpukit.reports.tables import Table

TIMELINE = "Timeline"
TOO_SHORT = "the run has fewer than two windows of steps, which are about a second each"
_STEPS_HEIGHT = 240
_LANE_HEIGHT = 24
_REST_HEIGHT = 76
_MOST_EVENTS = 100
_WAITING, _COMPUTING, _BETWEEN = "waiting for input", "computing", "callbacks between steps"
# As a fraction of the step time: a smaller part between steps would be invisible in the chart.
_LEAST_BETWEEN = 0.02


def timeline_chart(run: RunReport, time: TimeAxis) -> Chart | Unknown:
    """Returns a chart of the step time, split into its parts if they are known, and the events."""
    if run.steps is None or len(run.steps.time_s) < 2:
        return Unknown(TIMELINE, TOO_SHORT)
    times, waits = run.steps.figures["step_time_s"], run.steps.figures["wait_s"]
    size_s, unit = step_time_unit(times.overall)
    traces = [*_areas(run.steps, time, size_s, unit)]
    if run.validation is not None:
        traces += _validation(run.validation, time, size_s, unit)
    shifts = shifts_lane(run)
    found = [*lanes(run), *([shifts] if shifts else [])]
    for place, lane in enumerate(found):
        traces += draw_lane(lane, place, time)
    lanes_height = _LANE_HEIGHT * len(found)
    height = _STEPS_HEIGHT + lanes_height + _REST_HEIGHT
    share = lanes_height / (_STEPS_HEIGHT + lanes_height)
    layout: dict[str, Any] = {
        "xaxis": time.layout(),
        "yaxis": axis(f"{unit} per step", rangemode="tozero", domain=[share, 1], nticks=6),
    }
    if found:
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis2"] = {
            **names_axis([lane.name for lane in found]),
            "domain": [0, share - 0.02],
        }
        layout["barmode"] = "overlay"
        layout["shapes"] = step_time_lines(run, time)
    figures = [(f"step ({unit})", "step_time_s", 1 / size_s)]
    figures += [(f"wait ({unit})", "wait_s", 1 / size_s)] if waits.overall is not None else []
    return Chart(
        TIMELINE,
        _words(run.steps),
        draw(traces, height=height, **layout),
        time.table(run.steps, figures),
        _events_table(found, time),
        over_time=True,
    )


def _areas(series: TimeSeries, time: TimeAxis, size_s: float, unit: str) -> Iterator[Any]:
    times, waits = series.figures["step_time_s"], series.figures["wait_s"]
    areas, hover = WindowAreas(series, time), f"%{{y:.4~g}} {unit}"
    is_split = [wait is not None for wait in waits.mean]
    steps = scaled(times.mean, size_s)
    whole = [None if split else step for split, step in zip(is_split, steps, strict=True)]
    split = [step if split else None for split, step in zip(is_split, steps, strict=True)]
    wait = scaled(waits.mean, size_s)
    after_wait = _less(steps, wait)
    between = _between(series, size_s)
    work = _less(after_wait, between) if between else after_wait
    yield time.whereabouts(series.time_s, series.step, level=(times.highest or 0.0) / size_s)
    # Later areas cover earlier ones, so the visible part of each is as high as its time.
    if not all(is_split):
        name, color = "wait unknown" if any(is_split) else "whole step", COLORS["other"]
        yield areas.area(whole, name, color)
        yield areas.reading(whole, name, color, hover)
    if any(is_split):
        yield areas.area(split, _WAITING, COLORS["input"])
        if between:
            yield areas.area(after_wait, _BETWEEN, COLORS["callbacks"])
        yield areas.area(work, _COMPUTING, COLORS["compute"])
        yield areas.reading(wait, _WAITING, COLORS["input"], hover)
        if between:
            yield areas.reading(between, _BETWEEN, COLORS["callbacks"], hover)
        yield areas.reading(work, _COMPUTING, COLORS["compute"], hover)
    if series.readings_per_point > 1:
        high, low = scaled(times.high, size_s), scaled(times.low, size_s)
        yield from areas.edges(("slowest window", high), ("fastest window", low), hover)


def _validation(series: TimeSeries, time: TimeAxis, size_s: float, unit: str) -> Iterator[Any]:
    areas, name, color = WindowAreas(series, time), "validation step", COLORS["validation"]
    values = scaled(series.figures["step_time_s"].mean, size_s)
    yield areas.area(values, name, color)
    yield areas.reading(values, name, color, f"%{{y:.4~g}} {unit}")


def _events_table(found: Sequence[Lane], time: TimeAxis) -> tuple[tuple[str, Table], ...]:
    if not found:
        return ()
    count = sum(len(lane.marks) for lane in found)
    rows = event_rows(found, time, _MOST_EVENTS)
    note = f"The longest {_MOST_EVENTS} of {count:,}." if count > len(rows) else ""
    heads = (time.begin_title(), "what", "", "took", "step")
    return (("Events", Table(heads, rows, note)),)


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


def _between(series: TimeSeries, size_s: float) -> list[float | None] | None:
    """Returns the time between steps per point; None if unknown or too small to be visible."""
    between, times = series.figures.get("between_s"), series.figures["step_time_s"]
    if between is None or not between.overall or not times.overall:
        return None
    if between.overall < _LEAST_BETWEEN * times.overall:
        return None
    return [value or 0.0 for value in scaled(between.mean, size_s)]


def _less(whole: Sequence[float | None], part: Sequence[float | None]) -> list[float | None]:
    """Subtracts the parts from the whole, not below zero; None if either value is unknown."""
    return [
        None if one is None or other is None else max(round(one - other, 5), 0.0)
        for one, other in zip(whole, part, strict=True)
    ]
