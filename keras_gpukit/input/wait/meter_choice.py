"""Chooses the meter that measures the input wait of an iterator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_gpukit.errors import logger
from keras_gpukit.input.pipelines.device_buffers import feed_of
from keras_gpukit.input.pipelines.measurable import fetch_time, times_its_fetches
from keras_gpukit.input.wait.batch_arrival import BatchArrivalMeter
from keras_gpukit.input.wait.hidden_wait import HiddenWait
from keras_gpukit.input.wait.meters import Meter, NotMeasurable
from keras_gpukit.input.wait.pipeline_model import PipelineModelMeter
from keras_gpukit.input.wait.stages.watch import PipelineWatch
from keras_gpukit.input.wait.tf_private import (
    host_dataset,
    host_iterator,
    shows_models,
)
from keras_gpukit.input.wait.timed_fetches import FetchLatencyMeter

ON_DEVICE = "batches are buffered on a GPU, and this pipeline cannot be rebuilt to time them"
NOT_READ = "tf.data's model of the pipeline could not be read"


class MeterChoice:
    """Chooses the best meter for each iterator of a run.

    Args:
        step_function: Step function that the iterators are passed to.
        calls: Returns the number of calls of the step function so far.
        overlaps: Whether a call of several steps fetches while it computes. Eager calls do not.

    Attributes:
        pipeline: Recorder of the stages' costs, from the meters' readings of tf.data's model.
    """

    def __init__(
        self,
        step_function: Any,
        steps_per_execution: int,
        calls: Callable[[], int],
        *,
        overlaps: bool,
    ) -> None:
        self._steps_per_execution = steps_per_execution
        self._calls = calls
        self._is_unreadable = False
        self.pipeline = PipelineWatch()
        # Shared by all iterators: what it learns about the step holds for the whole run.
        self._hidden = (
            HiddenWait(step_function, steps_per_execution)
            if overlaps and steps_per_execution > 1
            else None
        )

    def __call__(self, iterator: Any) -> Meter | str:
        """Returns a meter for an iterator before its first fetch, or the reason why none fits."""
        try:
            return self._chosen(iterator)
        except NotMeasurable as reason:
            return str(reason)
        except Exception as error:
            # Another try, at the next epoch, would fail as well, and may take milliseconds.
            logger.debug("keras_gpukit: %s: %s", NOT_READ, error)
            self._is_unreadable = True
            return NOT_READ

    def _chosen(self, iterator: Any) -> Meter:
        feed = feed_of(host_dataset(iterator))
        if feed is not None:
            return BatchArrivalMeter(feed, self._calls, self._steps_per_execution)
        total_s = fetch_time(iterator)
        if total_s is not None:  # fetches are timed only if tf.data's model does not suffice
            overlaps = self._steps_per_execution > 1 or times_its_fetches(iterator)
            try:
                return FetchLatencyMeter(total_s, overlaps=overlaps)
            except Exception as error:
                logger.debug("keras_gpukit: the times of fetches cannot be read: %s", error)
        if not shows_models(host_iterator(iterator)._iterator_resource.device):
            raise NotMeasurable(ON_DEVICE)
        if self._is_unreadable:
            raise NotMeasurable(NOT_READ)
        return self._by_model(iterator)

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
