"""Chooses the meter that measures the input wait, and makes pipelines measurable that need it.

tf.data keeps no model of a pipeline whose autotuning is off. And its model contains the times
between fetches: it misses the last fetch of an epoch, which no other follows, and a short epoch has
few others. Keras makes a new iterator of its dataset in each epoch, the first one after
`on_train_begin`. Until then, another stage or option can be added without changing the elements or
their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_gpukit.errors import Guard, logger
from keras_gpukit.frameworks import keras_trainer, tf_datasets
from keras_gpukit.frameworks.tf_runtime import is_deterministic
from keras_gpukit.input.pipelines.rebuilding import (
    fetch_time,
    times_its_fetches,
    with_model,
    with_timed_fetches,
)
from keras_gpukit.input.wait.batch_arrival import (
    BatchArrivalMeter,
    buffering_devices,
    feed_of,
    with_timed_feed,
)
from keras_gpukit.input.wait.grain_times import time_grain
from keras_gpukit.input.wait.hidden_wait import HiddenWait
from keras_gpukit.input.wait.meters import FetchLatencyMeter, Meter, NotMeasurable
from keras_gpukit.input.wait.pipeline_model import PipelineModelMeter
from keras_gpukit.input.wait.watch import PipelineWatch

ON_DEVICE = "batches are buffered on a GPU, and this pipeline cannot be rebuilt to time them"
NOT_READ = "tf.data's model of the pipeline could not be read"
_MARK = "_gpukit_measurable"
# In an epoch of at most so many calls of the step function, each fetch must be timed.
MOST_CALLS_OF_SHORT_EPOCH = 2


class MeterChoice:
    """Chooses the best meter for each iterator of a run.

    A call of several steps `overlaps` fetching with computing, unless it is eager. A GPU
    `runs_ahead` if it may still compute a step when the next batch is fetched. `pipeline` records
    the stages' costs, from the meters' readings of tf.data's model.
    """

    def __init__(
        self,
        step_function: Any,
        steps_per_execution: int,
        calls: Callable[[], int],
        *,
        overlaps: bool,
        runs_ahead: bool = False,
    ) -> None:
        self._runs_ahead = runs_ahead
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
        feed = feed_of(tf_datasets.host_dataset(iterator))
        if feed is not None:
            return BatchArrivalMeter(feed, self._calls, self._steps_per_execution)
        total_s = fetch_time(iterator)
        if total_s is not None:  # fetches are timed only if tf.data's model does not suffice
            overlaps = (
                self._runs_ahead or self._steps_per_execution > 1 or times_its_fetches(iterator)
            )
            try:
                meter = FetchLatencyMeter(total_s, overlaps=overlaps)
                host = tf_datasets.host_iterator(iterator)
                if host is not None and self.pipeline.is_due and tf_datasets.has_model(host):
                    self.pipeline.follow(host)  # for its stages until the first batch
                return meter
            except Exception as error:
                logger.debug("keras_gpukit: the times of fetches cannot be read: %s", error)
        if not tf_datasets.shows_model(tf_datasets.host_iterator(iterator)):
            raise NotMeasurable(ON_DEVICE)
        if self._is_unreadable:
            raise NotMeasurable(NOT_READ)
        return self._by_model(iterator)

    def _by_model(self, iterator: Any) -> PipelineModelMeter:
        watches_stages = self._steps_per_execution > 1 or self.pipeline.is_due
        meter = PipelineModelMeter(
            iterator,
            self._steps_per_execution,
            on_reading=self.pipeline.add_reading if watches_stages else None,
            hidden=self._hidden,
        )
        if self._runs_ahead:
            meter.confidence = "upper bound"
        if watches_stages:
            self.pipeline.follow(tf_datasets.host_iterator(iterator))
        return meter


def make_measurable(
    epoch_iterator: Any, *, has_one_epoch: bool = False, has_short_epochs: bool = False
) -> None:
    """Makes the wait of a pipeline measurable if its epochs are short or its autotuning is off.

    Keras itself turns autotuning off for a `PyDataset` with several workers. On one device, with
    nothing hidden behind compute, it is enough to time the fetches. Otherwise, autotuning is turned
    on so that tf.data keeps a model, unless a stage asks to be tuned. Its thread then only wakes up
    now and then, but TensorFlow may wait for it at an epoch's end.
    """
    if hasattr(epoch_iterator, _MARK):
        return  # the same validation data are used in each epoch
    with Guard("Timing the stages of a Grain dataset", "They count as one stage."):
        time_grain(keras_trainer.epoch_dataset(epoch_iterator))
    try:
        batches = epoch_iterator.num_batches or 0  # None, if unknown or endless, counts as 0
        # If the first step is the only one, its wait is unknown, since it also traces.
        fewest = 2 if has_one_epoch else 1
        is_short = has_short_epochs or fewest <= batches <= MOST_CALLS_OF_SHORT_EPOCH
        dataset = _measurable(epoch_iterator, is_short)
        if dataset is not None:
            keras_trainer.replace_epoch_dataset(epoch_iterator, dataset)
            setattr(epoch_iterator, _MARK, True)
    except Exception as error:
        # Nothing was changed. If the wait turns out to be unknown, the record says so.
        logger.debug("keras_gpukit: a pipeline stays as it is: %s", error)


def _measurable(epoch_iterator: Any, is_short: bool) -> Any:
    """Returns the dataset to use instead, or None if the given one should stay."""
    import tensorflow as tf

    given, adapter = keras_trainer.epoch_dataset(epoch_iterator), epoch_iterator.data_adapter
    if not all(map(tf_datasets.shows_models, buffering_devices(given))):
        # Deterministic operations would make a pipeline with side effects serial.
        return None if is_deterministic() else with_timed_feed(given)
    is_distributed = not isinstance(given, tf.data.Dataset)
    has_dataset = hasattr(adapter, "py_dataset") or keras_trainer.dataset_in(adapter) is not None
    if is_distributed and not has_dataset:
        return None  # an adapter of arrays would copy them, and their autotuning is on
    dataset = adapter.get_tf_dataset() if is_distributed else given
    if is_short and not is_distributed and epoch_iterator.steps_per_execution == 1:
        return with_timed_fetches(dataset)
    if tf_datasets.is_autotuned(dataset):
        return None
    if is_distributed:
        strategy = keras_trainer.strategy_of_epochs(epoch_iterator)
        return strategy.experimental_distribute_dataset(with_model(dataset))
    if epoch_iterator.steps_per_execution > 1:
        try:
            return with_model(dataset)
        except ValueError:
            pass  # some of the wait may hide behind compute, but all of it can be measured
    return with_timed_fetches(dataset)
