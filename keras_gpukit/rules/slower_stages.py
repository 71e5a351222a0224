"""Which stage of a pipeline takes longer for a batch than before."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from keras_gpukit.records.pipeline import PipelineRecord, StageRecord
from keras_gpukit.records.run import RunSummary

MOSTLY = 0.5
"""The share of what all stages take longer that one must have to be named; our choice."""


@dataclass(frozen=True)
class SlowerStage:
    """A stage before and after a change.

    Attributes:
        stage: What it is.
        before_s: Its own time for a batch before.
        after_s: The same after.
    """

    stage: StageRecord
    before_s: float
    after_s: float


def slower_stage(
    summary: RunSummary, before_s: tuple[float, float], after_s: tuple[float, float]
) -> SlowerStage | None:
    """Returns the stage whose own time rose the most; None where none stands out, or is known.

    Args:
        summary: The run.
        before_s: From when to when the run went as before, in seconds since it began.
        after_s: From when to when it was slower.
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
    """The median cost of each stage within a stretch of the run; None where none was measured."""
    inside = [
        each for each in pipeline.costs if span_s[0] <= (each.begin_s + each.end_s) / 2 <= span_s[1]
    ]
    # What is half before a change and half after it is of use only where there is nothing else.
    whole = [each for each in inside if span_s[0] <= each.begin_s and each.end_s <= span_s[1]]
    columns = zip(*(each.per_batch_s for each in whole or inside), strict=True)
    return [statistics.median(costs) for costs in columns] or None
