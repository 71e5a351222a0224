"""Tables as data, which a terminal, Markdown and the HTML page show."""

from __future__ import annotations

from dataclasses import dataclass

from keras_gpukit.records.pipeline import PipelineRecord, StageRecord
from keras_gpukit.reports import units


@dataclass(frozen=True)
class Table:
    """A table of formatted numbers; the first cell of each row is its heading.

    Attributes:
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
    return "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines)


def _escaped(cell: str) -> str:
    """Returns a cell whose "|" starts no other one, and whose "__init__" is no bold "init"."""
    return cell.replace("|", "\\|").replace("__", "\\_\\_").replace("\n", " ")


def stages_table(pipeline: PipelineRecord) -> Table:
    """Returns a table of a pipeline's stages, the stage nearest to training first."""
    rows = tuple(
        (
            stage.name,
            stage.line or "",
            stage.work,
            units.known(stage.cost_per_batch_s, units.duration),
            _elements(stage),
            f"{stage.parallelism:,}",
            units.known(stage.buffered_after, units.number, ""),
            "bottleneck" if stage == pipeline.bottleneck else "",
        )
        for stage in pipeline.stages
    )
    heads = (
        "stage",
        "where",
        "work",
        "time per batch",
        "elements",
        "parallel",
        "buffered after",
        "",
    )
    return Table(heads, rows)


def _elements(stage: StageRecord) -> str:
    """Returns a stage's elements per batch, and how many later stages drop: "320, 90 % dropped"."""
    made = units.known(stage.elements, units.number, "")
    if stage.used is None or stage.used == 1:
        return made
    return f"{made}, {units.percentage(1 - stage.used)} dropped"


def stage_words(stage: StageRecord | None, *, is_bottleneck: bool) -> str:
    """Returns a stage's cost and place: "16 ms, 2 parallel, train.py:12"; "" without the stage."""
    if stage is None:
        return ""
    parts = (stage_cost(stage), stage.line, "bottleneck" if is_bottleneck else None)
    return ", ".join(filter(None, parts))


def stage_cost(stage: StageRecord) -> str:
    """Returns a stage's time per batch, and its parallelism above 1: "16 ms, 2 parallel"."""
    spent = units.known(stage.cost_per_batch_s, units.duration)
    return f"{spent}, {stage.parallelism:,} parallel" if stage.parallelism > 1 else spent
