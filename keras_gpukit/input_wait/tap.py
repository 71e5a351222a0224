"""Pipelines that tf.data keeps no model of, made measurable before Keras begins them.

Keras makes an iterator of its dataset anew each epoch, after it told callbacks that the run begins.
Until then another stage, or another option, changes neither the elements nor their order.

Private names, seen on Keras 3.12 to 3.15: `TFEpochIterator._distributed_dataset`,
`._distribute_strategy` and `.data_adapter`. Where one is gone, a pipeline
without a model stays unknown.
"""

from __future__ import annotations

from typing import Any

from keras_gpukit.errors import logger
from keras_gpukit.input_wait.tf_private import with_model, with_timed_fetches

_MARK = "_gpukit_measurable"


def make_measurable(epoch_iterator: Any) -> None:
    """Gives a pipeline whose autotuning is off what its wait can be read from.

    Where no stage asks to be tuned there is nothing to autotune, so it is turned on for its model's
    sake; that is so of a `PyDataset` with several workers, for which Keras itself turns it off.
    Else its fetches are timed.

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
    import tensorflow as tf

    given = epoch_iterator._distributed_dataset
    is_distributed = not isinstance(given, tf.data.Dataset)
    dataset = epoch_iterator.data_adapter.get_tf_dataset() if is_distributed else given
    if dataset.options().autotune.enabled is not False:
        return None
    try:
        modelled = with_model(dataset)
    except Exception:
        return None if is_distributed else with_timed_fetches(dataset)
    if is_distributed:
        return epoch_iterator._distribute_strategy.experimental_distribute_dataset(modelled)
    return modelled
