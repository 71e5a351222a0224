"""Tables as data, and what shows them: a terminal or notebook, Markdown, and the HTML page."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.reports import units

if TYPE_CHECKING:
    from rich.table import Table as TerminalTable


@dataclass(frozen=True)
class Table:
    """A table of formatted numbers.

    Attributes:
        columns: Headings of the columns.
        rows: Cells of each row; the first cell is the row's heading.
        note: Note on what the rows are; "" if none is needed.
        filtered_by: Hint in the filter's input field, such as "layer, operation, device"; "" for a
            table without a filter.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    filtered_by: str = ""


def markdown_table(table: Table) -> str:
    """Returns a table as Markdown, without its note."""
    lines = [table.columns, ("---",) * len(table.columns), *table.rows]
    # An unescaped "|" within a cell would start another cell.
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def terminal_table(table: Table, numbers: Container[str] = ()) -> TerminalTable:
    """Returns a table for a terminal or notebook, without its note.

    Args:
        table: The table; its cells are never parsed as markup.
        numbers: Headings of the columns that are on the right and not wrapped.
    """
    # A script run unchanged may check which modules are loaded.
    from rich.table import Table as TerminalTable

    from keras_gpukit.reports.printable import plain

    made = TerminalTable(box=None, pad_edge=False, show_header=any(table.columns))
    for heading in table.columns:
        is_number = heading in numbers
        made.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number)
    for row in table.rows:
        made.add_row(*map(plain, row))
    return made


def stages_table(pipeline: PipelineRecord) -> Table:
    """Returns a table of a pipeline's stages, the stage nearest to training first."""
    rows = tuple(
        (
            stage.name,
            stage.location or "",
            stage.work,
            units.known(stage.cost_per_batch_s, units.duration),
            f"{stage.parallelism:,}",
            units.known(stage.buffered_after, units.number, ""),
            "bottleneck" if stage == pipeline.bottleneck else "",
        )
        for stage in pipeline.stages
    )
    heads = ("stage", "where", "work", "time per batch", "parallel", "buffered after", "")
    return Table(heads, rows)
