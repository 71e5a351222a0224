"""Charts of where the time of a run, or of a whole script, went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_gpukit.records.report import RunReport
from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Omitted, axis, bar, draw
from keras_gpukit.reports.html.over_time import time_unit
from keras_gpukit.reports.html.words import unrecorded
from keras_gpukit.reports.phrases import time_spent
from keras_gpukit.reports.script import account, parts_of
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
            f"{each.method}, {each.place}",
            f"{each.count:,}",
            units.known(each.batches, lambda batches: f"{batches:,}"),
            units.duration(each.total_s),
            units.known(each.starting_s, units.duration),
            f"{each.models:,}",
        )
        for each in record.calls
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
