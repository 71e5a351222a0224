"""Which stage of a pipeline takes longer per batch than before."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from keras_gpukit.records.pipeline import PipelineRecord, StageRecord
from keras_gpukit.records.run import RunSummary

MOSTLY = 0.5
"""A stage is named if it has more than this share of all stages' extra time; our choice."""


@dataclass(frozen=True)
class SlowerStage:
    """A stage before and after a change.

    Attributes:
        stage: Record of the stage.
        before_s: The stage's own time per batch before the change.
        after_s: The stage's own time per batch after the change.
    """

    stage: StageRecord
    before_s: float
    after_s: float


def slower_stage(
    summary: RunSummary, before_s: tuple[float, float], after_s: tuple[float, float]
) -> SlowerStage | None:
    """Returns the stage whose own time rose the most; None if none stands out or times are unknown.

    Args:
        summary: The run.
        before_s: Start and end of the stretch before the change, in seconds since the run began.
        after_s: Start and end of the slower stretch, in seconds since the run began.
    """
    pipeline = summary.pipeline
    if pipeline is None:
        return None
    before, after = (_costs_s(pipeline, span) for span in (before_s, after_s))
    if before is None or after is None:
        return None
    rises = [max(later - one, 0.0) for one, later in zip(before, after, strict=True)]
    largest = max(range(len(rises)), key=rises.__getitem__)
    if rises[largest] <= MOSTLY * sum(rises):
        return None
    return SlowerStage(pipeline.stages[largest], before[largest], after[largest])


def _costs_s(pipeline: PipelineRecord, span_s: tuple[float, float]) -> list[float] | None:
    """Returns the median cost of each stage in a stretch; None if none was measured there."""
    inside = [
        each for each in pipeline.costs if span_s[0] <= (each.begin_s + each.end_s) / 2 <= span_s[1]
    ]
    # A part that lies only partly in the stretch is used only if no part lies wholly in it.
    whole = [each for each in inside if span_s[0] <= each.begin_s and each.end_s <= span_s[1]]
    columns = zip(*(each.per_batch_s for each in whole or inside), strict=True)
    return [statistics.median(costs) for costs in columns] or None
