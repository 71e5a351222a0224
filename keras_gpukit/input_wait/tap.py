"""Pipelines that tf.data keeps no model of, made measurable before Keras begins them.

Keras makes an iterator of its dataset anew each epoch, after it told callbacks that the run begins.
Until then another stage, or another option, changes neither the elements nor their order.

Private names, seen on Keras 3.12 to 3.15: `TFEpochIterator._distributed_dataset`,
`._distribute_strategy`, `.data_adapter` and the latter's `enqueuer`. Where one is gone, a pipeline
without a model stays unknown.
"""

from __future__ import annotations

from typing import Any

from keras_gpukit.errors import logger
from keras_gpukit.input_wait.tf_private import with_model, with_timed_fetches

_MARK = "_gpukit_measurable"


def make_measurable(epoch_iterator: Any) -> None:
    """Gives a pipeline whose autotuning is off what its wait can be read from.

    Keras itself turns autotuning off for a `PyDataset` with several workers. Its pipeline is a
    single stage in which there is nothing to tune, so there it is left on, for the model's sake.
    Where the user turned it off it stays off.

    Args:
        epoch_iterator: What Keras' `fit` or `evaluate` takes its iterators from.
    """
    if hasattr(epoch_iterator, _MARK):
        return  # validation data come again each epoch
    try:
        dataset = _measurable(epoch_iterator)
        if dataset is not None:
            epoch_iterator._distributed_dataset = dataset
            setattr(epoch_iterator, _MARK, True)
    except Exception as error:
        # Nothing was changed; should its wait turn out to be unknown, the record says so.
        logger.debug("keras_gpukit: a pipeline stays as it is: %s", error)


def _measurable(epoch_iterator: Any) -> Any:
    """The dataset to take instead, or None."""
    replicas = epoch_iterator._distribute_strategy.num_replicas_in_sync
    adapter = epoch_iterator.data_adapter
    if getattr(adapter, "enqueuer", None) is not None:
        dataset = with_model(adapter.get_tf_dataset())
        if replicas > 1:
            strategy = epoch_iterator._distribute_strategy
            dataset = strategy.experimental_distribute_dataset(dataset)
        return dataset
    if replicas == 1 and epoch_iterator._distributed_dataset.options().autotune.enabled is False:
        return with_timed_fetches(epoch_iterator._distributed_dataset)
    return None
