"""What the stages of a pipeline cost over time, from the same readings as their means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from keras_gpukit.input_wait.stages.bottleneck import Member, Segment, cut
from keras_gpukit.input_wait.stages.measuring import measure
from keras_gpukit.input_wait.stages.readings import MeasuredNode, ModelReading
from keras_gpukit.records.pipeline import PipelineCosts

MOST_PARTS = 32
"""Parts of a run that costs are kept of."""
SHORTEST_S = 1.0
"""A shorter run has one window of steps at most, and nothing that could have become slower."""
# What tf.data puts on top by itself, and does no work of its own.
_SILENT = {"Root"}


def costs_over_time(
    passes: Sequence[Sequence[tuple[float, ModelReading]]], output: MeasuredNode
) -> tuple[PipelineCosts, ...]:
    """Returns what the stages cost between readings, where the same stages were seen.

    Args:
        passes: Readings, each with the time since the run began; those of each pass over the
            pipeline in order.
        output: The pipeline over the whole run.

    Returns:
        The parts in order; none of a short run, whose stages are not worth measuring twice.
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
    """Returns all stages with their segments, from the one that training asks to the sources.

    Args:
        output: The stage that training asks.
        segments: Those it was cut into.
    """
    found = {id(member.stage): (each, member) for each in segments for member in each.members}
    ahead = [output]
    while ahead:
        stage = ahead.pop(0)
        if stage.kind not in _SILENT:
            yield found[id(stage)]
        ahead = [*stage.nested, *stage.inputs, *ahead]
