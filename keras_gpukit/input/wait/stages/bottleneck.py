"""Finds the segment of a pipeline that limits it.

Asynchronous stages cut a pipeline into segments, which run in parallel. Within a segment, stages
run one after the other. A segment's time per batch is the sum of its stages' own times, each
divided by the number of threads that share it. The slowest segment limits the pipeline, and its
most expensive stage is the bottleneck.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from keras_gpukit.input.pipelines.structure import stages
from keras_gpukit.input.wait.stages.readings import MeasuredNode
from keras_gpukit.sensors.interpreter import usable_cores

# Stages that hand each call to a thread of a pool. A call that waits keeps its thread, so with more
# `num_parallel_calls` than threads, the other calls are queued.
POOLED = {"ParallelMap", "MapAndBatch", "ParallelFilter", "ParallelBatch"}
# Stages that tf.data adds on top of a pipeline and that do no work.
_SILENT = {"Root"}


@dataclass(frozen=True)
class Member:
    """A stage as a part of its segment.

    Attributes:
        stage: Measured stage.
        threads: Number of threads that share the stage's work.
    """

    stage: MeasuredNode
    threads: float

    @property
    def time_s(self) -> float:
        """Seconds that the stage adds to the segment's time per batch."""
        return self.stage.cost_per_batch_s / self.threads


@dataclass
class Segment:
    """Stages that run one after the other.

    Attributes:
        threads: Number of threads that run the segment in parallel.
        buffered_after: Mean number of elements in the buffer that the segment fills; None if it
            fills no buffer.
        buffered_before: Mean number of elements in the buffer that the segment takes from; None if
            it takes from no buffer.
        members: Stages of the segment, the one nearest to training first.
    """

    threads: float
    buffered_after: float | None
    buffered_before: float | None = None
    members: list[Member] = field(default_factory=list)

    @functools.cached_property
    def time_s(self) -> float:
        """Seconds per batch. Read it only after all members are added, since it is cached."""
        return sum(member.time_s for member in self.members)


def cut(output: MeasuredNode) -> list[Segment]:
    """Cuts a pipeline into its segments.

    Args:
        output: Stage that training fetches from.
    """
    segments = [Segment(1.0, None)]
    _cut(output, segments[0], 1.0, segments)
    return [segment for segment in segments if segment.members]


def slowest(segments: list[Segment]) -> Segment:
    """Returns the segment that limits the pipeline."""
    return max(segments, key=lambda segment: segment.time_s)


def in_order(output: MeasuredNode) -> Iterator[tuple[Segment, Member]]:
    """Yields all stages that do work, with their segments, from training back to the sources.

    Args:
        output: Stage that training fetches from.
    """
    segments = cut(output)
    found = {id(member.stage): (each, member) for each in segments for member in each.members}
    ahead = [output]
    while ahead:
        stage = ahead.pop(0)
        if stage.kind not in _SILENT:
            yield found[id(stage)]
        ahead = [*stage.nested, *stage.inputs, *ahead]


def pool_threads(dataset: Any) -> int | None:
    """Returns the number of threads that run the functions of a pipeline; None for no limit.

    By default there is one per core: TensorFlow's inter-op threads. The pool counts as unlimited if
    a stage does not use it (`use_unbounded_threadpool`).
    """
    import tensorflow as tf

    if any(getattr(stage, "_use_unbounded_threadpool", False) for stage in stages(dataset)):
        return None
    own = dataset.options().threading.private_threadpool_size
    return own or tf.config.threading.get_inter_op_parallelism_threads() or usable_cores()


def within_pool(output: MeasuredNode, threads: int) -> MeasuredNode:
    """Returns a pipeline whose parallel stages run no more calls at a time than there are threads.

    Args:
        output: Stage that training fetches from, with the parallelism that it was set to.
        threads: Number of threads in the pool.
    """

    def within(stage: MeasuredNode) -> MeasuredNode:
        if stage.kind not in POOLED or stage.parallelism <= threads:
            return stage
        return replace(stage, parallelism=threads, asked_parallelism=stage.parallelism)

    return output.changed(within)


def _cut(stage: MeasuredNode, asking: Segment, copies: float, segments: list[Segment]) -> None:
    """Adds a stage, those before it and those nested in it; an asynchronous one starts a segment.

    `asking` fetches from the stage. `copies` of it run in parallel, each with its own threads.
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
            # Its threads take turns to fetch from the source and to start the datasets that its
            # function returns. tf.data counts the wait for a turn as work. There are twice as many
            # threads as `threads`, which process elements: the others start datasets ahead.
            nested = Segment(threads, stage.buffered)
            segments.append(nested)
            source.members.append(Member(stage, 2 * threads))
        elif stage.parallelism > 1:
            # One thread fetches from the source, others run the function.
            segments.append(Segment(threads, stage.buffered, None, [Member(stage, threads)]))
        else:
            source.members.append(Member(stage, threads))
    for each in stage.inputs:
        _cut(each, source, copies, segments)
    for each in stage.nested:
        _cut(each, nested, max(copies, each.copies), segments)
