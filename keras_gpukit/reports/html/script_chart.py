"""A chart of where the time of a whole script went."""

from __future__ import annotations

from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import PALETTE, Chart, Table
from keras_gpukit.reports.html.wall_time_chart import whole_bar
from keras_gpukit.reports.script import account, parts_of


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
