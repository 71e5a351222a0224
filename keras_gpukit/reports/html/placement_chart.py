"""A chart of the devices that operations ran on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.bars import draw_bars, row_bars
from keras_gpukit.reports.html.chart import Chart, Table, Unknown, label
from keras_gpukit.reports.placement import (
    COLUMNS,
    COPY_COLUMNS,
    beyond,
    cells,
    compiled_note,
    copy_cells,
)

_PLACEMENT = "Where operations ran"
_MOST_DEVICES = 7
_MOST_TYPES = 12
_MOST_FALLBACKS = 30


def placement_chart(run: RunReport) -> Chart | Unknown:
    """Returns a chart of the most common operations per device, with a table of CPU fallbacks."""
    record = run.summary.operations
    if record is None or not record.operations:
        because = record.unknown_because if record else None
        return Unknown(_PLACEMENT, because or "placement is read from the first step of fit")
    totals: Counter[str] = Counter()
    for counts in record.operations.values():
        totals.update(counts)
    commonest = [kind for kind, _ in totals.most_common(_MOST_TYPES)]
    traces = [
        row_bars(label(device), place, [counts.get(kind, 0) for kind in commonest], "%{x:,}")
        for place, (device, counts) in enumerate(list(record.operations.items())[:_MOST_DEVICES])
    ]
    names = [label(kind, 24) for kind in commonest]
    height = 100 + 24 * len(commonest)
    figure = draw_bars(traces, names, "operations", height=height, hovermode="y unified")
    rows = tuple(
        (kind, *(f"{counts.get(kind, 0):,}" for counts in record.operations.values()))
        for kind in commonest
    )
    others = len(totals) - len(commonest)
    note = f"And {others:,} rarer types." if others else ""
    table = Table(("operation", *record.operations), rows, note)
    return Chart(_PLACEMENT, _placement_words(record), figure, table, tuple(_more_tables(record)))


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


def _more_tables(record: PlacementRecord) -> Iterator[tuple[str, Table]]:
    if record.fallbacks:
        rows = tuple(
            (each.operation, f"{each.count:,}", each.reason, ", ".join(each.names))
            for each in record.fallbacks[:_MOST_FALLBACKS]
        )
        others = len(record.fallbacks) - len(rows)
        title = "Would be on the CPU" if record.predicted else "Not on the GPU, and why"
        note = f"And {others:,} other types." if others else ""
        yield title, Table(("operation", "count", "reason", "such as"), rows, note)
    if record.copies:
        table = Table(COPY_COLUMNS, tuple(map(copy_cells, record.copies)))
        yield "Copied between devices in each step", table
    if record.rows:
        by_layer = tuple(map(cells, record.rows))
        note = beyond(record, len(by_layer))
        table = Table(COLUMNS, by_layer, note, filtered_by="layer, operation, device")
        yield "Operations by layer, with requested and actual device", table
