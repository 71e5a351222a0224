"""Costs of the stages of a pipeline over time, from the same readings as their means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from keras_gpukit.input.wait.stages.bottleneck import Member, Segment, cut
from keras_gpukit.input.wait.stages.measuring import measure
from keras_gpukit.input.wait.stages.readings import MeasuredNode, ModelReading
from keras_gpukit.records.pipeline import PipelineCosts

MOST_PARTS = 32
"""Maximum number of parts of a run with separate costs."""
SHORTEST_S = 1.0
"""Minimum seconds of a run. A shorter one has at most one window, so no slowdown would show."""
# Stages that tf.data adds on top of a pipeline and that do no work.
_SILENT = {"Root"}


def costs_over_time(
    passes: Sequence[Sequence[tuple[float, ModelReading]]], output: MeasuredNode
) -> tuple[PipelineCosts, ...]:
    """Returns the costs of the stages in parts of a run, leaving out parts with other stages.

    Args:
        passes: Readings of each pass over the pipeline, in order. Each has the seconds since the
            run began.
        output: Stage that training fetches from, measured over the whole run.

    Returns:
        The parts in order; empty for a short run, whose stages are not worth measuring twice.
    """
    times_s = [when for readings in passes for when, _ in readings]
    if not times_s or times_s[-1] - times_s[0] < SHORTEST_S:
        return ()
    kinds = [member.stage.kind for _, member in in_order(output, cut(output))]
    most = max(1, MOST_PARTS // max(len(passes), 1))
    parts = []
    for readings in passes:
        every = max(1, -(-(len(readings) - 1) // most))
        chosen = [*readings[:-1:every], *readings[-1:]]
        for (begin_s, first), (end_s, last) in pairwise(chosen):
            measured = measure([[first, last]])
            if measured is None:
                continue
            found = [member.stage for _, member in in_order(measured[0], cut(measured[0]))]
            if [stage.kind for stage in found] == kinds:
                costs_s = tuple(stage.cost_per_batch_s for stage in found)
                parts.append(PipelineCosts(round(begin_s, 3), round(end_s, 3), costs_s))
    return tuple(parts)


def in_order(output: MeasuredNode, segments: list[Segment]) -> Iterator[tuple[Segment, Member]]:
    """Yields all stages that do work, with their segments, from training back to the sources.

    Args:
        output: Stage that training fetches from.
        segments: Segments of the pipeline, as `cut` returns them.
    """
    found = {id(member.stage): (each, member) for each in segments for member in each.members}
    ahead = [output]
    while ahead:
        stage = ahead.pop(0)
        if stage.kind not in _SILENT:
            yield found[id(stage)]
        ahead = [*stage.nested, *stage.inputs, *ahead]
