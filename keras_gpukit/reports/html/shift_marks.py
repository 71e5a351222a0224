"""Marks on the timeline for lasting changes of a run's figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.names import STEP_TIME
from keras_gpukit.records.report import RunReport
from keras_gpukit.records.shift import Shift
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import marked_line
from keras_gpukit.reports.html.event_lanes import Lane, Mark
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.rules.slowdown.shifts import shifts_of
from keras_gpukit.rules.slowdown.slower_over_time import two_digits

COLOR = "#c9a227"
# More labels would cover each other.
_MOST_LABELLED = 6
# As a fraction of the axis: lines left of this have their label on the right, others on the left.
_LEFT = 0.6


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
