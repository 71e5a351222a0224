"""Markdown for TensorBoard's Text tab: a run, and where its operations ran, also as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from keras_gpukit.records.finding import Verdict
from keras_gpukit.records.placement import DeviceCopies, PlacedOperations, PlacementRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.reports import phrases, units
from keras_gpukit.reports.evidence import checks, in_one_line
from keras_gpukit.reports.layers import kinds_table, near_the_limits
from keras_gpukit.reports.run_words import all_well, worst
from keras_gpukit.reports.tables import Table, markdown_table, stages_table

_MOST_LAYERS = 8


def markdown(summary: RunSummary) -> str:
    """Returns a run's figures and verdict as Markdown."""
    layers = None
    if summary.profile and summary.profile.layers:
        table = markdown_table(kinds_table(summary.profile, _MOST_LAYERS))
        layers = f"### Time by kind of layer\n\n{table}"
    parts = (
        ", ".join(phrases.headline(summary)) or "Nothing was measured.",
        phrases.time_spent(summary),
        summary.verdict.context,
        phrases.correction(summary),
        near_the_limits(summary),
        phrases.compared(summary),
        phrases.captured(summary),
        None if worst(summary) else all_well(summary),
        findings_markdown(summary.verdict),
        layers,
        _input_markdown(summary.input) if summary.input else None,
    )
    return "\n\n".join(part for part in parts if part)


def findings_markdown(verdict: Verdict) -> str:
    """Returns every finding with all of its advice, then how many checks don't apply."""
    blocks = []
    for finding in verdict.findings:
        blocks.append(f"### {finding.severity}: {finding.title} (`{finding.code}`)")
        blocks.append(in_one_line(finding))
        blocks.append("\n".join(f"- {line}" for line in finding.advice))
    blocks.append(checks(verdict) or "")
    return "\n\n".join(filter(None, blocks))


def _input_markdown(record: InputRecord) -> str:
    """Returns tables of the wait per step (distribution) and of the pipeline's stages."""
    blocks = []
    distribution = record.distribution
    if distribution is not None:
        waits = (
            ("median", distribution.median_s),
            ("95 %", distribution.p95_s),
            ("worst", distribution.worst_s),
        )
        rows = [(name, units.duration(wait_s)) for name, wait_s in waits]
        rows.append(("steps stalled", units.percentage(distribution.stalled_fraction)))
        if distribution.burst_period_steps is not None:
            rows.append(("a stall every", f"{units.number(distribution.burst_period_steps)} steps"))
        blocks += ["### Wait per step", markdown_table(Table(("", ""), tuple(rows)))]
    if record.pipeline is not None and record.pipeline.stages:
        blocks += ["### Stages of the pipeline", markdown_table(stages_table(record.pipeline))]
        unnamed = record.pipeline.balanced_because or record.pipeline.unknown_because
        if unnamed:
            blocks.append(f"No single stage is the bottleneck: {unnamed}.")
    return "\n\n".join(blocks)


_COLUMNS = ("operation", "layer", "count", "requested", "device", "reason")
_COPY_COLUMNS = ("from", "to", "tensors", "bytes per step", "largest")
_TYPES_SHOWN = 30
_ROWS_SHOWN = 40
_FALLBACKS_SHOWN = 30
_PARTS_SHOWN = 3


def placement_markdown(record: PlacementRecord) -> str:
    """Returns the placement of operations as Markdown, for TensorBoard's Text tab."""
    if not record.operations:
        return f"Placement is unknown: {record.unknown_because or 'it was not read'}."
    blocks = [placement_words(record)]
    for title, table in (
        *placement_tables(record, _ROWS_SHOWN),
        ("Operations by device", operations_table(record, _TYPES_SHOWN)),
    ):
        blocks += [f"### {title}", markdown_table(table), table.note]
    return "\n\n".join(block for block in blocks if block)


def placement_words(record: PlacementRecord) -> str:
    """Returns how many operations run on each device, what is copied, and what fell back."""
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
        count = units.count(sum(fallback.count for fallback in record.fallbacks), "operation")
        fell = "would be on the CPU even with a GPU" if record.predicted else "fell back to the CPU"
        words += f" {count} {fell}."
    return " ".join(filter(None, (words, _compiled_note(record))))


def operations_table(record: PlacementRecord, most: int) -> Table:
    """Returns a table of the most common types of operations, with their count on each device."""
    totals: Counter[str] = Counter()
    for counts in record.operations.values():
        totals.update(counts)
    rows = tuple(
        (kind, *(f"{counts.get(kind, 0):,}" for counts in record.operations.values()))
        for kind, _ in totals.most_common(most)
    )
    others = len(totals) - len(rows)
    note = f"And {others:,} rarer types." if others else ""
    return Table(("operation", *record.operations), rows, note)


def placement_tables(
    record: PlacementRecord, most: int | None = None
) -> Iterator[tuple[str, Table]]:
    """Yields the tables of CPU fallbacks, copies, and operations by layer, with their headings.

    `most` limits the rows of operations by layer; None shows all that the record has.
    """
    if record.fallbacks:
        rows = tuple(
            (fallback.operation, f"{fallback.count:,}", fallback.reason, ", ".join(fallback.names))
            for fallback in record.fallbacks[:_FALLBACKS_SHOWN]
        )
        others = len(record.fallbacks) - len(rows)
        title = "Would be on the CPU" if record.predicted else "Not on the GPU, and why"
        note = f"And {others:,} other types." if others else ""
        yield title, Table(("operation", "count", "reason", "such as"), rows, note)
    if record.copies:
        table = Table(_COPY_COLUMNS, tuple(map(_copy_cells, record.copies)))
        yield "Copied between devices in each step", table
    if record.rows:
        by_layer = tuple(map(_placed_cells, record.rows[:most]))
        note = _beyond(record, len(by_layer))
        table = Table(_COLUMNS, by_layer, note, filtered_by="layer, operation, device")
        yield "Operations by layer, with requested and actual device", table


def _placed_cells(row: PlacedOperations) -> tuple[str, ...]:
    return (
        row.operation,
        row.layer or "",
        f"{row.count:,}",
        row.requested or "",
        f"{row.device}, XLA" if row.compiled else row.device,
        row.reason or ("" if row.expected else "unknown"),
    )


def _copy_cells(copies: DeviceCopies) -> tuple[str, ...]:
    return (
        copies.source,
        copies.target,
        f"{copies.count:,}",
        "".join(_copied(copies)),
        "; ".join(
            f"{copy.operation} {copy.dtype}{list(copy.shape)}: {units.size(copy.size_bytes)}"
            for copy in copies.largest
        ),
    )


def _copied(copies: DeviceCopies) -> Iterator[str]:
    yield units.known(copies.size_bytes, units.size)
    if copies.unknown and copies.size_bytes is not None:
        yield f", and {copies.unknown:,} of unknown size"
    if copies.in_loops:
        yield f"; {copies.in_loops:,} in loops, counted once"
    if copies.host_only:
        yield f"; {copies.host_only:,} stay in host memory"


def _beyond(record: PlacementRecord, shown: int) -> str:
    """Returns a note on the rows and operations that are not shown; "" if all are shown."""
    hidden = record.rows[shown:]
    rows = len(hidden) + record.rows_left_out
    operations = sum(row.count for row in hidden) + record.operations_left_out
    if not rows:
        return ""
    return f"And {operations:,} operations in {rows:,} more rows."


def _compiled_note(record: PlacementRecord) -> str | None:
    """Explains the device of operations that XLA compiled; None if XLA compiled nothing."""
    if not record.compiled_parts:
        return None
    words = "; ".join(
        f"{units.count(part.operations, 'operation')} into one part on {part.device}"
        for part in record.compiled_parts[:_PARTS_SHOWN]
    )
    others = len(record.compiled_parts) - _PARTS_SHOWN
    more = f", and {others:,} smaller parts" if others > 0 else ""
    text = (
        f"XLA compiles {words}{more}. These operations have no device of their own: they are "
        "listed as in the graph before compilation, on the device of their part."
    )
    refused = ", ".join(record.not_compilable or ())
    return (
        f"{text} XLA has no kernel for these, which stay outside: {refused}." if refused else text
    )
