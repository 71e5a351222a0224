"""Devices that operations ran on and the reasons, in words and as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.records.placement import DeviceCopies, PlacedOperations, PlacementRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.text import table

COLUMNS = ("operation", "layer", "count", "requested", "device", "reason")
COPY_COLUMNS = ("from", "to", "tensors", "bytes per step", "largest")
_TYPES_SHOWN = 30
_ROWS_SHOWN = 40
_PARTS_SHOWN = 3


def placement_markdown(record: PlacementRecord) -> str:
    """Returns the placement of operations as Markdown, for TensorBoard's Text tab."""
    if not record.operations:
        return f"Placement is unknown: {record.unknown_because or 'it was not read'}."
    total = ", ".join(f"{count} on {device}" for device, count in record.by_device.items())
    blocks = [f"Operations of the training step: {total}."]
    if (compiled := compiled_note(record)) is not None:
        blocks.append(compiled)
    if record.transfers is not None:
        ends = ", ".join(f"{ends}: {count}" for ends, count in record.transfers_between.items())
        ends = f" ({ends})" if ends else ""
        blocks.append(f"Copies between devices in each step: {record.transfers}{ends}.")
    if record.copies:
        blocks.append(table(COPY_COLUMNS, map(copy_cells, record.copies)))
    if record.fallbacks:
        blocks.append("### Would be on the CPU" if record.predicted else "### Not on the GPU")
        blocks.append(
            table(
                ("operation", "count", "reason", "such as"),
                ((f.operation, f.count, f.reason, ", ".join(f.names)) for f in record.fallbacks),
            )
        )
    if record.rows:
        rows = record.rows[:_ROWS_SHOWN]
        blocks += ["### By layer", table(COLUMNS, map(cells, rows)), beyond(record, len(rows))]
    for device, operations in record.operations.items():
        most = sorted(operations.items(), key=lambda item: -item[1])[:_TYPES_SHOWN]
        blocks += [f"### {device}", table(("operation", "count"), most)]
        if len(operations) > len(most):
            blocks.append(f"And {len(operations) - len(most)} other types of operation.")
    return "\n\n".join(block for block in blocks if block)


def cells(row: PlacedOperations) -> tuple[str, ...]:
    """Returns a row of the table of operations by layer; the cells match `COLUMNS`."""
    return (
        row.operation,
        row.layer or "",
        f"{row.count:,}",
        row.requested or "",
        f"{row.device}, XLA" if row.compiled else row.device,
        row.reason or ("" if row.expected else "unknown"),
    )


def copy_cells(copies: DeviceCopies) -> tuple[str, ...]:
    """Returns a row of the table of copies between devices; the cells match `COPY_COLUMNS`."""
    return (
        copies.source,
        copies.target,
        f"{copies.count:,}",
        "".join(_bytes(copies)),
        "; ".join(
            f"{each.operation} {each.dtype}{list(each.shape)}: {units.size(each.size_bytes)}"
            for each in copies.largest
        ),
    )


def _bytes(copies: DeviceCopies) -> Iterator[str]:
    yield units.known(copies.size_bytes, units.size)
    if copies.unknown and copies.size_bytes is not None:
        yield f", and {copies.unknown:,} of unknown size"
    if copies.in_loops:
        yield f"; {copies.in_loops:,} in loops, counted once"
    if copies.host_only:
        yield f"; {copies.host_only:,} stay in host memory"


def beyond(record: PlacementRecord, shown: int) -> str:
    """Returns a note on the rows and operations that are not shown; "" if all are shown.

    Args:
        record: Placement of the training step.
        shown: Number of the record's rows that are shown.
    """
    hidden = record.rows[shown:]
    rows = len(hidden) + record.rows_left_out
    operations = sum(row.count for row in hidden) + record.operations_left_out
    if not rows:
        return ""
    return f"And {operations:,} operations in {rows:,} more rows."


def compiled_note(record: PlacementRecord) -> str | None:
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
