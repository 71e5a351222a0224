"""Finds the segment of a pipeline that limits it, and adds time that tf.data does not measure.

Asynchronous stages cut a pipeline into segments, which run in parallel. Within a segment, stages
run one after the other. A segment's time per batch is the sum of its stages' own times, each
divided by the number of threads that share it. The slowest segment limits the pipeline, and its
most expensive stage is the bottleneck.

Two things take time but appear in no node of tf.data's model. One is the overhead of calling a
function, which is the same for each call, however little the function does. The other is the work
on an element that is not finished yet: for a nested pipeline that yields a single element, nothing
else can be seen.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from keras_gpukit.frameworks.tf_datasets import setting, stages
from keras_gpukit.input.wait.readings import MeasuredNode
from keras_gpukit.rules.input.pipeline_causes import ACCOUNTED
from keras_gpukit.sensors.interpreter import usable_cores

# Stages that hand each call to a thread of a pool. A call that waits keeps its thread, so with more
# `num_parallel_calls` than threads, the other calls are queued.
POOLED = {"ParallelMap", "MapAndBatch", "ParallelFilter", "ParallelBatch"}
# Stages that tf.data adds on top of a pipeline and that do no work.
_SILENT = {"Root"}
# Stages that call a function for each input element or, without an input, for each output element.
CALLING = {"Map", "ParallelMap", "MapAndBatch", "Filter", "ParallelFilter", "Scan", "Generator"}
# Maximum overhead of a call, in addition to its operations. On a busy machine with two cores, it is
# 20 to 50 µs (benchmarks/stage_naming.py, "tiny functions").
LONGEST_CALL_S = 100e-6


@dataclass(frozen=True)
class Member:
    """A stage as a part of its segment."""

    stage: MeasuredNode
    threads: float

    @property
    def time_s(self) -> float:
        """Seconds that the stage adds to the segment's time per batch."""
        return self.stage.cost_per_batch_s / self.threads


@dataclass
class Segment:
    """Stages that run one after the other, in each of some threads.

    It fills a buffer with `buffered_after` elements on average; None without one.
    """

    threads: float
    buffered_after: float | None
    members: list[Member] = field(default_factory=list)

    @functools.cached_property
    def time_s(self) -> float:
        """Seconds per batch. Read it only after all members are added, since it is cached."""
        return sum(member.time_s for member in self.members)


def cut(output: MeasuredNode) -> list[Segment]:
    """Cuts a pipeline into its segments."""
    segments = [Segment(1.0, None)]
    _cut(output, segments[0], 1.0, segments)
    return [segment for segment in segments if segment.members]


def slowest(segments: list[Segment]) -> Segment:
    """Returns the segment that limits the pipeline."""
    return max(segments, key=lambda segment: segment.time_s)


def in_order(output: MeasuredNode) -> Iterator[tuple[Segment, Member]]:
    """Yields all stages that do work, with their segments, from training back to the sources."""
    segments = cut(output)
    found = {id(member.stage): (part, member) for part in segments for member in part.members}
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

    if any(setting(stage, "use_unbounded_threadpool", False) for stage in stages(dataset)):
        return None
    own = dataset.options().threading.private_threadpool_size
    return own or tf.config.threading.get_inter_op_parallelism_threads() or usable_cores()


def within_pool(output: MeasuredNode, threads: int | None) -> MeasuredNode:
    """Returns a pipeline whose parallel stages run at most as many calls as there are threads.

    None is no limit, as in `pool_threads`.
    """

    def within(stage: MeasuredNode) -> MeasuredNode:
        if threads is None or stage.kind not in POOLED or stage.parallelism <= threads:
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
            segments.append(Segment(threads, stage.buffered, [Member(stage, threads)]))
        else:
            source.members.append(Member(stage, threads))
    for node in stage.inputs:
        _cut(node, source, copies, segments)
    for node in stage.nested:
        _cut(node, nested, max(copies, node.copies), segments)


def complete(output: MeasuredNode, wait_s: float) -> MeasuredNode | None:
    """Returns a pipeline whose costs account for the time that training waits for it.

    Costs are added where necessary. None if nothing accounts for the wait.
    """
    if slowest(cut(output)).time_s >= ACCOUNTED * wait_s:
        return output
    call_s = _call_s(output, wait_s)
    if call_s <= LONGEST_CALL_S:
        return _with_calls(output, call_s)
    threads = {id(member.stage): member.threads for part in cut(output) for member in part.members}
    unseen = [stage for stage in output.walk() if stage.cost_s is None and stage.per_batch > 0]
    if unseen:
        # The stages nearer to training wait for the one nearest to the sources.
        chosen = unseen[-1]
        cost_s = wait_s * threads[id(chosen)]
        costly = replace(chosen, cost_s=cost_s / chosen.per_batch, cost_per_batch_s=cost_s)
        return output.changed(lambda stage: costly if stage is chosen else stage)
    return None


def calls_per_batch(stage: MeasuredNode) -> float:
    """Returns how many times a stage calls its function per batch."""
    if stage.kind not in CALLING:
        return 0.0
    return stage.inputs[0].per_batch if stage.inputs else stage.per_batch


def _call_s(output: MeasuredNode, wait_s: float) -> float:
    """Returns the lowest overhead per call, in seconds, at which a segment takes the whole wait."""
    costs = [float("inf")]
    for segment in cut(output):
        # One thread starts the calls, even if several run them.
        calls = sum(calls_per_batch(member.stage) for member in segment.members)
        if calls > 0:
            costs.append((wait_s - segment.time_s) / calls)
    return min(costs)


def _with_calls(output: MeasuredNode, call_s: float) -> MeasuredNode:
    def with_calls(stage: MeasuredNode) -> MeasuredNode:
        added_s = calls_per_batch(stage) * call_s * stage.parallelism
        return replace(
            stage,
            cost_s=None if stage.cost_s is None else stage.cost_s + added_s / stage.per_batch,
            cost_per_batch_s=stage.cost_per_batch_s + added_s,
        )

    return output.changed(with_calls)
