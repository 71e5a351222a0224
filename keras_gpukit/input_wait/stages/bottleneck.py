"""Which stage limits a pipeline.

Asynchronous stages cut a pipeline into segments, which run in parallel. Within a segment, stages
run one after the other: its time per batch is the sum of its stages' own times, each divided by the
number of threads that share it. The slowest segment limits the pipeline, and its most expensive
stage is the bottleneck.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from keras_gpukit.input_wait.stages.readings import MeasuredNode


@dataclass(frozen=True)
class Member:
    """A stage in its segment.

    Attributes:
        stage: The stage.
        threads: How many threads work on its elements in parallel.
    """

    stage: MeasuredNode
    threads: float

    @property
    def time_s(self) -> float:
        """What it adds to the segment's time for a batch."""
        return self.stage.cost_per_batch_s / self.threads


@dataclass
class Segment:
    """Stages that run one after the other.

    Attributes:
        threads: How many threads run them in parallel.
        buffered_after: Mean elements in the buffer that the segment fills.
        buffered_before: The same of the buffer that it takes from.
        members: Its stages, the last one first.
    """

    threads: float
    buffered_after: float | None
    buffered_before: float | None = None
    members: list[Member] = field(default_factory=list)

    @functools.cached_property
    def time_s(self) -> float:
        """Time that it takes to work for one batch; asked once all members are there."""
        return sum(member.time_s for member in self.members)


def cut(output: MeasuredNode) -> list[Segment]:
    """Cuts a pipeline into its segments.

    Args:
        output: The stage that training asks.
    """
    segments = [Segment(1.0, None)]
    _cut(output, segments[0], 1.0, segments)
    return [segment for segment in segments if segment.members]


def slowest(segments: list[Segment]) -> Segment:
    """Returns the segment that sets the pace."""
    return max(segments, key=lambda segment: segment.time_s)


def _cut(stage: MeasuredNode, asking: Segment, copies: float, segments: list[Segment]) -> None:
    """Puts a stage into the segment that asks it, or cuts there.

    Args:
        stage: The stage.
        asking: The segment that asks it.
        copies: How many copies of the stage run in parallel, each with its own threads.
        segments: All segments, added to.
    """
    if stage.buffered is None:
        asking.members.append(Member(stage, asking.threads))
        source = nested = asking
    else:
        if asking.buffered_before is None:
            asking.buffered_before = stage.buffered
        source = nested = Segment(copies, stage.buffered)
        segments.append(source)
        threads = stage.parallelism * copies
        if stage.nested:
            # Its threads take turns to ask the source and to begin what its function returns, and
            # tf.data counts their waiting for that as work. There are twice as many as work on
            # elements: as many begin the next ones ahead.
            nested = Segment(threads, stage.buffered)
            segments.append(nested)
            source.members.append(Member(stage, 2 * threads))
        elif stage.parallelism > 1:
            # One thread asks the source, others run the function.
            segments.append(Segment(threads, stage.buffered, None, [Member(stage, threads)]))
        else:
            source.members.append(Member(stage, threads))
    for each in stage.inputs:
        _cut(each, source, copies, segments)
    for each in stage.nested:
        _cut(each, nested, max(copies, each.copies), segments)
