"""Keeps readings of tf.data's model of a pipeline, and computes stages' costs from them."""

from __future__ import annotations

import threading
import time
import weakref
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.frameworks.tf_datasets import (
    dataset_of,
    is_fed_by_another,
    parse_model,
    read_model,
)
from keras_gpukit.input.pipelines.stage import Stage, read_stages
from keras_gpukit.input.wait.bottleneck import complete, pool_threads, within_pool
from keras_gpukit.input.wait.grain_times import TimedGrain, timed_grain
from keras_gpukit.input.wait.measured_nodes import costs_over_time, measure, measure_starts
from keras_gpukit.input.wait.readings import MeasuredNode, ModelReading, read_nodes
from keras_gpukit.input.wait.stage_records import Names, align, stage_records
from keras_gpukit.records.pipeline import PipelineRecord, StageRecord

MOST_STARTS = 8
"""Maximum number of starts that are kept, in addition to the first one of the run; our choice."""


class _Start:
    """One start: the latest reading before the first batch, and the one after the second."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.during: Any = None
        self.after: Any = None


class StartReadings:
    """Collects a reading of each start, of which those before the first batch come by chance."""

    def __init__(self) -> None:
        self._starts: list[_Start] = []

    def follow(self, iterator: Any) -> None:
        """Notes that a pipeline starts."""
        starts = self._starts
        if len(starts) > MOST_STARTS:
            unread = (n for n, start in enumerate(starts) if n and start.during is None)
            del starts[next(unread, 1)]
        starts.append(_Start(iterator))

    def poll(self) -> None:
        """Reads the model if the first batches are still to come; called on the sampling thread."""
        start = self._starts[-1] if self._starts else None
        iterator = start.iterator() if start is not None and start.after is None else None
        if start is not None and iterator is not None:
            start.during = read_model(iterator)

    def began(self, model: Any) -> None:
        """Notes the reading after the first batches."""
        if self._starts and self._starts[-1].after is None:
            self._starts[-1].after = model

    def readings(self) -> tuple[list[ModelReading], bool]:
        """Returns readings of starts, and whether they are later ones than the run's first.

        A stage that has read all its data deletes its inputs, so a reading after the first batches
        may lack stages: a shuffle whose buffer holds the whole epoch has read everything by then.
        If any start was seen with more stages, only such ones count.
        """
        found = [self._fullest(start) for start in tuple(self._starts)]
        later = [fullest for fullest in found[1:] if fullest is not None]
        chosen = later or [fullest for fullest in found if fullest is not None]
        early = [reading for reading, is_early in chosen if is_early]
        return early or [reading for reading, _ in chosen], bool(later)

    def _fullest(self, start: _Start) -> tuple[ModelReading, bool] | None:
        """Returns the reading with most stages, and whether it came before the first batches."""
        known = [
            (read_nodes(parse_model(model)), is_early)
            for model, is_early in ((start.after, False), (start.during, True))
            if model is not None
        ]
        return max(known, key=lambda pair: len(pair[0].nodes), default=None)


# Maximum number of readings of one pass over the pipeline, and of passes. If there are more, some
# in the middle are dropped.
MOST_READINGS = 16
MOST_PASSES = 8
# Number of latest passes that are evaluated while the run continues.
LATEST_PASSES = 2
# After the first passes, at most one in so many seconds is followed: more readings of short epochs
# would cost more than they add.
FEWEST_PASSES, PASS_EVERY_S = 4, 1.0
OUT_OF_SIGHT = "several replicas share the pipeline, and tf.data has no model of a shared pipeline"
NOT_READ = "tf.data's model of the pipeline, which has the costs of its stages, was not read"


class PipelineWatch:
    """Keeps readings of a pipeline's model, and computes a record from them on request.

    Adding a reading only appends it to a list. Iterators are not kept alive.

    ```python
    watch = PipelineWatch()
    watch.follow(iterator)                                            # at each new iterator
    watch.add_reading(tf_datasets.read_model(iterator))              # now and then
    watch.pipeline_record(wait_s=0.01).stages
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
        self._grain: TimedGrain | None = None
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
            self._grain = timed_grain(self._dataset) if self._dataset is not None else None

    def add_reading(self, model: Any) -> None:
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
        readings = next((pass_ for pass_ in reversed(self._passes) if pass_), None)
        return None if readings is None else parse_model(readings[-1][1])

    def pipeline_record(self, wait_s: float | None, *, so_far: bool = False) -> PipelineRecord:
        """Returns the costs of the stages; the rules decide which one is the bottleneck.

        The first call names the stages, which takes milliseconds. Any thread may call this. The
        mean wait of a step shows how much work tf.data does not time, which is added. While the run
        continues (`so_far`), only the latest passes count: steps wait for the GIL meanwhile.
        """
        # Copies, since readings are added meanwhile.
        passes = [list(pass_) for pass_ in self._passes[-LATEST_PASSES if so_far else 0 :]]
        with self._one_at_a_time:
            return self._record(wait_s, passes)

    def _record(
        self, wait_s: float | None, passes: list[list[tuple[float, Any]]]
    ) -> PipelineRecord:
        self._read_dataset()
        if self._is_out_of_sight:
            return PipelineRecord(unknown_because=OUT_OF_SIGHT)
        readings, is_later = self._starts.readings()
        start = measure_starts(readings)
        starts: tuple[StageRecord, ...] = ()
        if start is not None:
            start = within_pool(start, self._pool)
            starts, _ = stage_records(start, self._names(start), refills=is_later)
        written = None if self._written is None else tuple(self._written.names)
        record = PipelineRecord(starts=starts, written=written)
        if not any(passes):
            return replace(record, unknown_because=NOT_READ)
        read = [
            [(when, read_nodes(parse_model(model))) for when, model in pass_] for pass_ in passes
        ]
        measured = measure([[reading for _, reading in pass_] for pass_ in read])
        if measured is None:
            because = "no batch was fetched between two readings of the pipeline's model"
            return replace(record, unknown_because=because)
        output, _ = measured
        costs = costs_over_time(read, output)
        output = within_pool(output, self._pool)
        if self._grain is not None:
            # Grain's times are sums over the run, so they have no parts over time.
            output, costs = self._grain.with_stages(output), ()
        if wait_s is not None:
            output = complete(output, wait_s) or output
        stages, slowest_s = stage_records(output, self._names(output))
        return replace(record, stages=stages, slowest_s=slowest_s, costs=costs)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _read_dataset(self) -> None:
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
