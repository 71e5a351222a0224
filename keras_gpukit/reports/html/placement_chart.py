"""A chart of the devices that operations ran on."""

from __future__ import annotations

from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import Chart, Unknown, draw_bars, label, row_bars
from keras_gpukit.reports.placement import compiled_note, operations_table, placement_tables

_PLACEMENT = "Where operations ran"
_MOST_DEVICES = 7
_MOST_TYPES = 12


def placement_chart(run: RunReport) -> Chart | Unknown:
    """Returns a chart of the most common operations per device, with a table of CPU fallbacks."""
    record = run.summary.operations
    if record is None or not record.operations:
        because = record.unknown_because if record else None
        return Unknown(_PLACEMENT, because or "placement is read from the first step of fit")
    table = operations_table(record, _MOST_TYPES)
    commonest = [kind for kind, *_ in table.rows]
    traces = [
        row_bars(label(device), place, [counts.get(kind, 0) for kind in commonest], "%{x:,}")
        for place, (device, counts) in enumerate(list(record.operations.items())[:_MOST_DEVICES])
    ]
    names = [label(kind, 24) for kind in commonest]
    height = 100 + 24 * len(commonest)
    figure = draw_bars(traces, names, "operations", height=height, hovermode="y unified")
    return Chart(
        _PLACEMENT, _placement_words(record), figure, table, tuple(placement_tables(record))
    )


def _placement_words(record: PlacementRecord) -> str:
    total = ", ".join(
        f"{units.count(count, 'operation')} on {device}"
        for device, count in record.by_device.items()
    )
    words = f"The training step has {total}."
    if record.transfers is not None:
        number = f"{record.transfers:,}" if record.transfers else "No"
        copies = "copy" if record.transfers == 1 else "copies"
        words += f" {number} {copies} between devices in each step"
        if record.copies and record.copied_bytes is not None:
            words += f", {units.size(record.copied_bytes)} in all"
        words += "."
    if record.fallbacks:
        count = sum(fallback.count for fallback in record.fallbacks)
        operations = "operation" if count == 1 else "operations"
        fell = "would be on the CPU even with a GPU" if record.predicted else "fell back to the CPU"
        words += f" {count:,} {operations} {fell}."
    return " ".join(filter(None, (words, compiled_note(record))))
