"""A chart of where operations ran."""

from __future__ import annotations

from collections import Counter

from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.bars import bar, draw_bars
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
    """The commonest operations by device, and those that are not where they could be."""
    record = run.summary.operations
    if record is None or not record.operations:
        because = record.unknown_because if record else None
        return Unknown(_PLACEMENT, because or "placement is read from the first step of fit")
    totals: Counter[str] = Counter()
    for counts in record.operations.values():
        totals.update(counts)
    commonest = [kind for kind, _ in totals.most_common(_MOST_TYPES)]
    traces = [
        bar(
            label(device),
            place,
            y=list(range(len(commonest))),
            x=[counts.get(kind, 0) for kind in commonest],
            orientation="h",
            hovertemplate="%{x:,}",
        )
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
    more = (*_fallbacks(record), *_copies(record), *_by_layer(record))
    return Chart(_PLACEMENT, _placement_words(record), figure, table, more)


def _placement_words(record: PlacementRecord) -> str:
    total = ", ".join(
        f"{count:,} operations on {device}" for device, count in record.by_device.items()
    )
    words = f"The training step has {total}."
    if record.transfers is not None:
        number = f"{record.transfers:,}" if record.transfers else "No"
        copies = "copy" if record.transfers == 1 else "copies"
        words += f" {number} {copies} between devices in each step{_sizes(record)}."
    if record.fallbacks:
        count = sum(fallback.count for fallback in record.fallbacks)
        would = (
            "would be on the CPU even with a GPU" if record.predicted else "fell back to the CPU"
        )
        operations = "operation" if count == 1 else "operations"
        words += f" {count:,} {operations} {would}."
    return " ".join(filter(None, (words, compiled_note(record))))


def _sizes(record: PlacementRecord) -> str:
    if not record.copies or record.copied_bytes is None:
        return ""
    return f", {units.size(record.copied_bytes)} in all"


def _copies(record: PlacementRecord) -> tuple[tuple[str, Table], ...]:
    if not record.copies:
        return ()
    table = Table(COPY_COLUMNS, tuple(map(copy_cells, record.copies)))
    return (("Copied between devices in each step", table),)


def _fallbacks(record: PlacementRecord) -> tuple[tuple[str, Table], ...]:
    if not record.fallbacks:
        return ()
    rows = tuple(
        (each.operation, f"{each.count:,}", each.reason, ", ".join(each.names))
        for each in record.fallbacks[:_MOST_FALLBACKS]
    )
    others = len(record.fallbacks) - len(rows)
    title = "Would be on the CPU" if record.predicted else "Not on the GPU, and why"
    note = f"And {others:,} other types." if others else ""
    return ((title, Table(("operation", "count", "reason", "such as"), rows, note)),)


def _by_layer(record: PlacementRecord) -> tuple[tuple[str, Table], ...]:
    if not record.rows:
        return ()
    rows = tuple(map(cells, record.rows))
    note = beyond(record, len(rows))
    table = Table(COLUMNS, rows, note, filtered_by="layer, operation, device")
    return (("Operations by layer, with requested and actual device", table),)
