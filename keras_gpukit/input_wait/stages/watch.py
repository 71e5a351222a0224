"""Watches a pipeline from readings of tf.data's model, and says what its stages cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import give_up
from keras_gpukit.input_wait.stages import tf_private
from keras_gpukit.input_wait.stages.aligning import Names, align
from keras_gpukit.input_wait.stages.bottleneck import Segment, cut, dearest, slowest
from keras_gpukit.input_wait.stages.kinds import kind_of, spoken, work_of_kind
from keras_gpukit.input_wait.stages.measuring import measure
from keras_gpukit.input_wait.stages.naming import NamedStage, name_stages
from keras_gpukit.input_wait.stages.readings import MeasuredNode, read_model
from keras_gpukit.records.pipeline import PipelineRecord, StageRecord

# Below this share of waiting there is no bottleneck worth a name.
STALLED_FRACTION = 0.05
# Readings kept of one pass over the pipeline, and passes kept; more are thinned out.
MOST_READINGS = 32
MOST_PASSES = 16
SOURCE = "tf.data's live model"
# What tf.data puts in by itself, and does no work of its own.
SILENT = {"Root", "Model", "Options", "MaxIntraOpParallelism", "PrivateThreadPool"}


class PipelineWatch:
    """Keeps readings of a pipeline's model; a record is made from them when it is asked for.

    Taking a reading in only puts it on a list. Iterators are not kept alive.

    ```python
    watch = PipelineWatch()
    watch.follow(iterator)                                            # at each new iterator
    watch.read(tf.data.experimental.get_model_proto(iterator))        # now and then
    watch.record(stall_fraction=0.4).bottleneck
    ```
    """

    def __init__(self) -> None:
        self._passes: list[list[Any]] = []
        self._every = 1
        self._until_next = 0
        self._dataset: Any = None
        self._written: NamedStage | None = None

    def follow(self, iterator: Any) -> None:
        """The readings to come are of this iterator, over the same pipeline as those before.

        Args:
            iterator: A `tf.data.Iterator`.
        """
        self._passes = [*self._passes[-MOST_PASSES + 1 :], []]
        self._every, self._until_next = 1, 0
        if self._written is None and self._dataset is None:
            self._dataset = tf_private.dataset_of(iterator)

    def read(self, model: Any) -> None:
        """Takes in a reading of the iterator followed.

        Args:
            model: What `tf.data.experimental.get_model_proto` returned; not to be changed.
        """
        readings = self._passes[-1]
        if self._until_next and len(readings) > 1:
            # The last reading is always the newest: costs are the difference to it.
            readings[-1] = model
            self._until_next -= 1
            return
        readings.append(model)
        self._until_next = self._every - 1
        if len(readings) > MOST_READINGS:
            readings[1:-1:2] = []
            self._every *= 2

    def record(self, stall_fraction: float | None) -> PipelineRecord:
        """Returns what the stages cost, and which one training waits for.

        The first call names the stages, which takes milliseconds.

        Args:
            stall_fraction: Part of the steps' time spent waiting for batches, 0 to 1; None where it
                is unknown.
        """
        measured = measure([[read_model(model) for model in each] for each in self._passes])
        if measured is None:
            return PipelineRecord(unknown_because="the pipeline's model was not read twice")
        output, batches = measured
        names = self._names(output)
        segments = cut(output)
        critical = slowest(segments)
        limiting = dearest(critical)
        stages, bottleneck = [], None
        for segment, node in _in_order(output, segments):
            stage = _stage(node, segment, critical, names)
            if node.kind in SILENT:
                continue
            stages.append(stage)
            if node is limiting:
                bottleneck = stage
        record = PipelineRecord(stages=tuple(stages), batches=batches, source=SOURCE)
        if stall_fraction is None:
            because = "how long steps wait for batches is unknown"
            return replace(record, unknown_because=because)
        if stall_fraction < STALLED_FRACTION:
            because = f"steps wait for batches only {stall_fraction:.1%} of their time"
            return replace(record, balanced_because=because)
        return replace(record, bottleneck=bottleneck)

    def _names(self, output: MeasuredNode) -> Names:
        try:
            if self._dataset is not None:
                self._written, self._dataset = name_stages(self._dataset), None
            return align(self._written, output) if self._written is not None else {}
        except Exception as error:
            self._written = self._dataset = None
            give_up("Naming the stages of the pipeline", error, "They go by their kinds.")
            return {}


def _in_order(
    output: MeasuredNode, segments: list[Segment]
) -> Iterator[tuple[Segment, MeasuredNode]]:
    """Returns all stages with their segments, from the one that training asks to the sources."""
    segment_of = {id(stage): segment for segment in segments for stage in segment.stages}
    ahead = [output]
    while ahead:
        stage = ahead.pop(0)
        yield segment_of[id(stage)], stage
        ahead = [*stage.nested, *stage.inputs, *ahead]


def _stage(node: MeasuredNode, segment: Segment, critical: Segment, names: Names) -> StageRecord:
    kind = kind_of(node.kind)
    written = names.get(id(node))
    function = written.function if written is not None else None
    given_name = written.given_name if written is not None else None
    work = work_of_kind(kind)
    if function is not None and function.work != "mapping":
        work = function.work
    share = 0.0
    if segment is critical and critical.time_per_batch_s > 0:
        share = node.cost_per_batch_s / segment.threads / critical.time_per_batch_s
    return StageRecord(
        name=given_name or (function and function.name) or spoken(kind),
        kind=spoken(kind),
        work=work,
        location=function.location if function is not None else None,
        cost_s=node.cost_s,
        cost_per_batch_s=node.cost_per_batch_s,
        parallelism=max(1, round(segment.threads)),
        buffered_before=segment.buffered_before,
        buffered_after=segment.buffered_after,
        share=share,
    )
