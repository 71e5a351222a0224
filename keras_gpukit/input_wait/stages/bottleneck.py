"""Which stage limits a pipeline.

Asynchronous stages cut a pipeline into segments, which run beside each other. In a segment one
thing is done after the other: its time for a batch is the sum of its stages' own times, over the
threads that share them. The slowest segment sets the pace, and the dearest of its stages is what to
change.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from keras_gpukit.input_wait.stages.readings import MeasuredNode


@dataclass
class Segment:
    """Stages that are worked on one after the other.

    Attributes:
        threads: How many threads do so at once.
        buffered_after: Mean elements in the buffer that the segment fills.
        buffered_before: The same of the buffer that it takes from.
        stages: Its stages, the last one first.
    """

    threads: float
    buffered_after: float | None
    buffered_before: float | None = None
    stages: list[MeasuredNode] = field(default_factory=list)

    @property
    def time_per_batch_s(self) -> float:
        """Time that it takes to work for one batch."""
        return sum(stage.cost_per_batch_s for stage in self.stages) / self.threads


def cut(output: MeasuredNode) -> list[Segment]:
    """Cuts a pipeline into its segments.

    Args:
        output: The stage that training asks.
    """
    segments = [Segment(1.0, None)]
    _cut(output, segments[0], 1.0, segments)
    return segments


def _cut(stage: MeasuredNode, segment: Segment, copies: float, segments: list[Segment]) -> None:
    """Puts a stage into the segment that asks it, or cuts there.

    Args:
        stage: The stage.
        segment: The segment that asks it.
        copies: How often what stands here is there at once, each with threads of its own.
        segments: All segments.
    """
    nested_in = segment
    if stage.buffered is None:
        segment.stages.append(stage)
        source = segment
    else:
        if segment.buffered_before is None:
            segment.buffered_before = stage.buffered
        # What calls the function in several threads asks for its elements in one.
        work = Segment(stage.parallelism * copies, stage.buffered, None, [stage])
        segments.append(work)
        nested_in = work
        if stage.parallelism > 1:
            source = Segment(copies, stage.buffered)
            segments.append(source)
        else:
            source = work
    for child in stage.inputs:
        _cut(child, source, copies, segments)
    for child in stage.nested:
        _cut(child, nested_in, max(copies, child.copies), segments)


def slowest(segments: list[Segment]) -> Segment:
    """Returns the segment that sets the pace."""
    return max(segments, key=lambda segment: segment.time_per_batch_s)


def dearest(segment: Segment) -> MeasuredNode:
    """Returns the stage that takes the most of a segment's time."""
    return max(segment.stages, key=lambda stage: stage.cost_per_batch_s)
