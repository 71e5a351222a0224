"""Charts of where the time of a run, or of a whole script, went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_gpukit.records.report import RunReport
from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, PALETTE, Chart, Unknown, axis, bar, draw
from keras_gpukit.reports.html.time_axis import time_unit
from keras_gpukit.reports.html.words import not_told
from keras_gpukit.reports.phrases import time_spent
from keras_gpukit.reports.script import account, parts_of
from keras_gpukit.reports.tables import Table

_WALL_TIME = "Where the whole run's time went"
_LEAST_LABELLED = 0.06


def wall_time_chart(run: RunReport) -> Chart | Unknown:
    """Returns a chart with one bar for the whole run, split into the parts of its wall time."""
    parts = run.summary.breakdown
    if parts is None or parts.wall_s <= 0:
        return Unknown(_WALL_TIME, not_told(run, "it was not measured for every step"))
    named = (
        ("compute", parts.compute_s, COLORS["compute"], "the step's own work"),
        ("input", parts.input_s, COLORS["input"], "steps waiting for their batches"),
        ("first step", parts.first_step_s, COLORS["first step"], "tracing, compiling, first batch"),
        ("epoch starts", parts.epoch_start_s, COLORS["epoch starts"], "epochs' first batches"),
        ("validation", parts.validation_s, COLORS["validation"], "validation within fit"),
        ("callbacks", parts.callbacks_s, COLORS["callbacks"], "callbacks, and Keras' own loop"),
        (
            "tracing again",
            parts.tracing_s or None,
            COLORS["first step"],
            "steps traced or compiled again",
        ),
        ("hangs", parts.hangs_s or None, COLORS["input"], "no step ended for a minute or more"),
        ("other", parts.other_s, COLORS["other"], "Keras at the end of epochs"),
        ("unknown", parts.unknown_s or None, COLORS["other"], "steps whose wait is unknown"),
    )
    present = [(name, spent_s, color) for name, spent_s, color, _ in named if spent_s]
    rows = tuple(
        (
            name,
            what,
            units.known(spent_s, units.duration),
            "" if spent_s is None else units.percentage(spent_s / parts.wall_s),
        )
        for name, spent_s, _, what in named
    )
    figure = whole_bar(present, parts.wall_s)
    words = f"{time_spent(run.summary) or ''}."
    return Chart(_WALL_TIME, words, figure, Table(("part", "what it is", "time", "share"), rows))


def whole_bar(parts: Sequence[tuple[str, float, str]], wall_s: float) -> str:
    """Returns the figure of one bar that is split into parts."""
    size_s, unit = time_unit(wall_s)
    return draw(
        [
            _segment(name, place, spent_s, wall_s, color, size_s)
            for place, (name, spent_s, color) in enumerate(parts)
        ],
        height=170,
        barmode="stack",
        uniformtext={"mode": "hide", "minsize": 11},  # smaller is not legible
        hovermode="closest",
        xaxis=axis(unit, range=[0, wall_s / size_s]),
        yaxis={"visible": False, "fixedrange": True},
        margin={"l": 8, "r": 16, "t": 12, "b": 48},
    )


def _segment(
    name: str, place: int, spent_s: float, wall_s: float, color: str, size_s: float
) -> Any:
    share = spent_s / wall_s
    is_labelled = share > _LEAST_LABELLED
    return bar(
        name,
        0 if is_labelled else place,  # a labelled segment needs no pattern
        color,
        x=[round(spent_s / size_s, 4)],
        y=[0],
        orientation="h",
        text=[f"{name} {units.duration(spent_s)}" if is_labelled else ""],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        hovertemplate=f"{name}: {units.duration(spent_s)}, {units.percentage(share)}"
        "<extra></extra>",
    )


def script_chart(record: ScriptRecord) -> Chart:
    """Returns a chart with one bar for the script, and a table of its calls by line."""
    parts = [part for part in parts_of(record) if part.spent_s > 0]
    colors = (PALETTE[place % len(PALETTE)] for place in range(len(parts)))
    figure = whole_bar(
        [(part.name, part.spent_s, color) for part, color in zip(parts, colors, strict=True)],
        record.wall_s,
    )
    rows = tuple(
        (
            f"{each.method}, {each.place}",
            f"{each.count:,}",
            units.known(each.batches, lambda batches: f"{batches:,}"),
            units.duration(each.total_s),
            units.known(each.starting_s, units.duration),
            f"{each.models:,}",
        )
        for each in record.calls
    )
    columns = ("calls", "number", "batches", "time", "of it to start", "models")
    return Chart(
        "Where the whole script's time went",
        f"{account(record)}.",
        figure,
        Table(
            ("part", "time", "share"),
            tuple(
                (
                    part.name,
                    units.duration(part.spent_s),
                    units.percentage(part.spent_s / record.wall_s),
                )
                for part in parts
            ),
        ),
        shown=Table(columns, rows),
        shown_title="Calls by line of the script",
    )
