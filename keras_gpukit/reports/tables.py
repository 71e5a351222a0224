"""Tables as data, which a terminal, Markdown and the HTML page show."""

from __future__ import annotations

from dataclasses import dataclass

from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.reports import units


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
