"""Records the costs of the stages of a pipeline, from readings of tf.data's model."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.frameworks.tf_datasets import dataset_of, is_fed_by_another
from keras_gpukit.frameworks.tf_iterators import parse_model
from keras_gpukit.input.pipelines.kinds import kind_of, spoken, work_of_kind
from keras_gpukit.input.pipelines.stage import Stage, read_stages
from keras_gpukit.input.wait.stages.aligning import Names, align
from keras_gpukit.input.wait.stages.bottleneck import (
    Member,
    Segment,
    complete,
    in_order,
    pool_threads,
    slowest,
    within_pool,
)
from keras_gpukit.input.wait.stages.dropping import fills, used_shares
from keras_gpukit.input.wait.stages.grain_times import GrainTimes, grain_times
from keras_gpukit.input.wait.stages.measuring import costs_over_time, measure, measure_starts
from keras_gpukit.input.wait.stages.readings import MeasuredNode, read_nodes
from keras_gpukit.input.wait.stages.starts import StartReadings
from keras_gpukit.records.pipeline import PipelineRecord, StageRecord, Work

# Maximum number of readings of one pass over the pipeline, and of passes. If there are more, some
# in the middle are dropped.
MOST_READINGS = 16
MOST_PASSES = 8
# Number of latest passes that are evaluated while the run continues.
LATEST_PASSES = 2
# After the first passes, at most one in so many seconds is followed: more readings of short epochs
# would cost more than they add.
FEWEST_PASSES, PASS_EVERY_S = 4, 1.0
# Work of stages that only move elements: what takes time is how often a function makes them.
_UNNAMED: tuple[Work, ...] = ("batching", "other", "mapping")
OUT_OF_SIGHT = "several replicas share the pipeline, and tf.data has no model of a shared pipeline"
NOT_READ = "tf.data's model of the pipeline, which has the costs of its stages, was not read"


class PipelineWatch:
    """Keeps readings of a pipeline's model, and computes a record from them on request.

    Adding a reading only appends it to a list. Iterators are not kept alive.

    ```python
    watch = PipelineWatch()
    watch.follow(iterator)                                            # at each new iterator
    watch.read(tf_iterators.read_model(iterator))                       # now and then
    watch.record(wait_s=0.01).stages
    ```
    """

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._pass_began_s = 0.0
        # By pass: seconds since the start when each reading was taken, and the unparsed reading.
        self._passes: list[list[tuple[float, Any]]] = []
        self._starts = StartReadings()
        self._one_at_a_time = threading.RLock()  # an interrupt may leave it locked
        self._every = 1
        self._until_next = 0
        self._dataset: Any = None
        self._grain: GrainTimes | None = None
        self._written: Stage | None = None
        self._pool: int | None = None
        self._is_out_of_sight = False
        self._naming = Guard("Naming the stages of the pipeline", "Their kinds are shown instead.")

    @property
    def is_due(self) -> bool:
        """Whether the next pass over the pipeline should be followed."""
        passes = self._passes
        return len(passes) < FEWEST_PASSES or self._elapsed_s() - self._pass_began_s >= PASS_EVERY_S

    def follow(self, iterator: Any) -> None:
        """Starts a pass: the next readings are of this iterator over the same pipeline."""
        if len(self._passes) == MOST_PASSES:
            del self._passes[1:-1:2]  # the first one and the two latest stay
        self._passes.append([])
        self._starts.follow(iterator)
        self._pass_began_s = self._elapsed_s()
        self._every, self._until_next = 1, 0
        if self._written is None and self._dataset is None:
            # Keras itself keeps the dataset alive while it trains on it.
            self._dataset = dataset_of(iterator)
            self._grain = grain_times(self._dataset) if self._dataset is not None else None

    def read(self, model: Any) -> None:
        """Adds a reading of the current iterator."""
        readings = self._passes[-1]
        if not readings:
            self._starts.began(model)
        reading = self._elapsed_s(), model
        if self._until_next and len(readings) > 1:
            # The last one is always the newest, since costs are the growth of counters up to it.
            readings[-1] = reading
            self._until_next -= 1
            return
        readings.append(reading)
        if len(readings) > MOST_READINGS:
            del readings[1:-1:2]
            self._every *= 2
        self._until_next = self._every - 1

    def poll(self) -> None:
        """Reads the model while the first batches are made; called on the sampling thread."""
        self._starts.poll()

    def stop(self) -> None:
        """Ends what was changed to time the stages."""
        if self._grain is not None:
            self._grain.stop()

    def latest_model(self) -> Any:
        """Returns the latest `ModelProto`; None before the first. Any thread may call this."""
        readings = next((each for each in reversed(self._passes) if each), None)
        return None if readings is None else parse_model(readings[-1][1])

    def record(self, wait_s: float | None, *, so_far: bool = False) -> PipelineRecord:
        """Returns the costs of the stages; the rules decide which one is the bottleneck.

        The first call names the stages, which takes milliseconds. Any thread may call this.

        Args:
            wait_s: Mean wait of a step for its batch, in seconds. It shows how much work tf.data
                does not time, which is added. None if unknown.
            so_far: Whether the run continues. Only the latest passes are then evaluated, since
                steps wait for the GIL meanwhile.
        """
        # Copies, since readings are added meanwhile.
        passes = [list(each) for each in self._passes[-LATEST_PASSES if so_far else 0 :]]
        with self._one_at_a_time:
            return self._record(wait_s, passes)

    def _record(
        self, wait_s: float | None, passes: list[list[tuple[float, Any]]]
    ) -> PipelineRecord:
        self._look_at_dataset()
        if self._is_out_of_sight:
            return PipelineRecord(unknown_because=OUT_OF_SIGHT)
        readings, is_later = self._starts.readings()
        start = measure_starts(readings)
        starts: tuple[StageRecord, ...] = ()
        if start is not None:
            starts, _ = self._stages(self._within_pool(start), refills=is_later)
        written = None if self._written is None else tuple(self._written.names)
        record = PipelineRecord(starts=starts, written=written)
        if not any(passes):
            return replace(record, unknown_because=NOT_READ)
        read = [[(when, read_nodes(parse_model(model))) for when, model in each] for each in passes]
        measured = measure([[reading for _, reading in each] for each in read])
        if measured is None:
            because = "no batch was fetched between two readings of the pipeline's model"
            return replace(record, unknown_because=because)
        output, _ = measured
        costs = costs_over_time(read, output)
        output = self._within_pool(output)
        if self._grain is not None:
            # Grain's times are sums over the run, so they have no parts over time.
            output, costs = self._grain.with_stages(output), ()
        if wait_s is not None:
            output = complete(output, wait_s) or output
        stages, slowest_s = self._stages(output)
        return replace(record, stages=stages, slowest_s=slowest_s, costs=costs)

    def _stages(
        self, output: MeasuredNode, *, refills: bool = False
    ) -> tuple[tuple[StageRecord, ...], float]:
        """Returns the stages of a pipeline with their names, and the time of its slowest segment.

        With `refills`, a cache that is being filled was filled in an earlier epoch, too.
        """
        names, used = self._names(output), used_shares(output)
        found = list(in_order(output))
        critical = slowest([segment for segment, _ in found])
        records = {id(each.stage): _stage(each, part, critical, names) for part, each in found}
        for node in (member.stage for _, member in found):
            filling = [each for each in fills(node) if id(each) in records] if refills else []
            share = sum(records[id(each)].share for each in filling)
            records[id(node)] = replace(
                records[id(node)], used=used[id(node)], refill_share=share if filling else None
            )
        for node in reversed([member.stage for _, member in found]):
            if node.buffered is None and node.nested:
                _credit_maker(node, records)
        return tuple(records.values()), critical.time_s

    def _within_pool(self, output: MeasuredNode) -> MeasuredNode:
        return output if self._pool is None else within_pool(output, self._pool)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _look_at_dataset(self) -> None:
        dataset, self._dataset = self._dataset, None
        if dataset is None:
            return
        with self._naming:
            self._is_out_of_sight = is_fed_by_another(dataset)
            self._written, self._pool = read_stages(dataset), pool_threads(dataset)

    def _names(self, output: MeasuredNode) -> Names:
        with self._naming:
            return align(self._written, output) if self._written is not None else {}
        return {}


def _credit_maker(maker: MeasuredNode, records: dict[int, StageRecord]) -> None:
    """Adds what a stage's datasets cost to the stage that makes them, as `flat_map` does.

    Nested stages that users know by a function or by what they read keep their cost. An
    asynchronous stage has threads of its own for its datasets, so it is left as it is.
    """
    made = records[id(maker)]
    for node in (each for nested in maker.nested for each in nested.walk()):
        record = records.get(id(node))
        if record is None or record.location or record.work not in _UNNAMED:
            continue
        spent_s = record.cost_per_batch_s or 0.0
        made = replace(
            made,
            share=made.share + record.share,
            cost_per_batch_s=(made.cost_per_batch_s or 0.0) + spent_s,
            cost_s=(made.cost_s or 0.0) + spent_s / maker.per_batch if maker.per_batch else None,
        )
        records[id(node)] = replace(record, share=0.0, cost_per_batch_s=0.0, cost_s=0.0)
    records[id(maker)] = made


def _stage(member: Member, segment: Segment, critical: Segment, names: Names) -> StageRecord:
    node = member.stage
    kind = kind_of(node.kind)
    written = node.written or names.get(id(node))
    function = written.function if written is not None else None
    given_name = written.given_name if written is not None else None
    work = work_of_kind(kind)
    if function is not None and function.work != "mapping":
        work = function.work
    is_critical = segment is critical and critical.time_s > 0
    return StageRecord(
        name=given_name or (function and function.name) or spoken(kind),
        kind=spoken(kind),
        work=work,
        location=function.location if function is not None else None,
        cost_s=node.cost_s,
        cost_per_batch_s=node.cost_per_batch_s,
        parallelism=max(node.parallelism, round(segment.threads)),
        asked_parallelism=node.asked_parallelism,
        buffered_after=_known(segment.buffered_after),
        share=member.time_s / critical.time_s if is_critical else 0.0,
        files=written.files if written is not None else None,
        repeats=written.repeats if written is not None else None,
        pass_bytes=node.pass_bytes or None,
        call=function.call if function is not None else None,
        elements=node.per_batch,
    )


def _known(buffered: float | None) -> float | None:
    return None if buffered is None or math.isnan(buffered) else buffered
