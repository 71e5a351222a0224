"""Chooses the meter that measures the input wait of an iterator."""

from __future__ import annotations

from typing import Any

from keras_gpukit.input_wait.fetch_latency import FetchLatencyMeter
from keras_gpukit.input_wait.hidden_wait import HiddenWait
from keras_gpukit.input_wait.meters import Meter
from keras_gpukit.input_wait.pipeline_model import PipelineModelMeter
from keras_gpukit.input_wait.stages.watch import PipelineWatch
from keras_gpukit.input_wait.tf_private import host_iterator
from keras_gpukit.pipelines.measurable import fetch_time, times_its_fetches


class MeterChoice:
    """Chooses the best meter for each iterator of a run.

    Args:
        step_function: Step function that the iterators are passed to.
        steps_per_execution: Number of steps in one call.
        overlaps: Whether a call of several steps fetches while it computes. Eager calls do not.

    Attributes:
        pipeline: Recorder of the stages' costs, from the meters' readings of tf.data's model.
    """

    def __init__(self, step_function: Any, steps_per_execution: int, *, overlaps: bool) -> None:
        self._steps_per_execution = steps_per_execution
        self.pipeline = PipelineWatch()
        # Shared by all iterators: what it learns about the step holds for the whole run.
        self._hidden = (
            HiddenWait(step_function, steps_per_execution)
            if overlaps and steps_per_execution > 1
            else None
        )

    def __call__(self, iterator: Any) -> Meter | str:
        """Returns a meter for an iterator before its first fetch, or the reasons why none fits."""
        reasons = []
        total_s = fetch_time(iterator)
        if total_s is not None:  # fetches are timed only if tf.data's model does not suffice
            try:
                overlaps = self._steps_per_execution > 1 or times_its_fetches(iterator)
                return FetchLatencyMeter(total_s, overlaps=overlaps)
            except Exception as error:
                reasons.append(f"{FetchLatencyMeter.mechanism}: {error or type(error).__name__}")
        try:
            return self._by_model(iterator)
        except Exception as error:
            reasons.append(f"{PipelineModelMeter.mechanism}: {error or type(error).__name__}")
        return "; ".join(reasons)

    def _by_model(self, iterator: Any) -> PipelineModelMeter:
        watches_stages = self._steps_per_execution > 1 or self.pipeline.is_due
        meter = PipelineModelMeter(
            iterator,
            self._steps_per_execution,
            on_reading=self.pipeline.read if watches_stages else None,
            hidden=self._hidden,
        )
        if watches_stages:
            self.pipeline.follow(host_iterator(iterator))
        return meter
