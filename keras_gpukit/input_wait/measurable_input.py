"""Pipelines that their model does not suffice for, made measurable before Keras begins them.

tf.data keeps no model of a pipeline whose autotuning is off. And a model holds the times between
fetches: the last one of an epoch, which none follows, is in none of them, and a short epoch has few
others.

Keras makes an iterator of its dataset again each epoch, after it has called on_train_begin.
Until then another stage, or another option, changes neither the elements nor their order.

Private names, seen on Keras 3.12 to 3.15: `TFEpochIterator._distributed_dataset`,
`._distribute_strategy`, `.data_adapter`, `.num_batches` and `.steps_per_execution`,
`PyDatasetAdapter.py_dataset` and `TFDatasetAdapter._dataset`. Where one is gone, the wait of such
pipelines stays unknown.
"""

from __future__ import annotations

from typing import Any

from keras_gpukit.errors import logger
from keras_gpukit.input_wait.tf_private import is_autotuned
from keras_gpukit.pipelines.measurable import with_model, with_timed_fetches

_MARK = "_gpukit_measurable"


# In an epoch of so many calls of the step function, each fetch must be timed.
MOST_CALLS_OF_SHORT_EPOCH = 2


def make_measurable(
    epoch_iterator: Any, *, has_one_epoch: bool = False, has_short_epochs: bool = False
) -> None:
    """Gives a pipeline what its wait can be read from: if epochs are short or autotuning is off.

    Keras itself turns it off for a `PyDataset` with several workers. How long fetches take is all
    that must be known where nothing hides behind compute and there is one device. Else autotuning
    is turned on for its model's sake, if no stage asks to be tuned: then it has nothing to do but
    to wake up now and then, for which TensorFlow may wait at an epoch's end.

    Args:
        epoch_iterator: What Keras' `fit` or `evaluate` takes its iterators from.
        has_one_epoch: Whether the call has no other one.
        has_short_epochs: Whether that was seen, where the data do not say it.
    """
    if hasattr(epoch_iterator, _MARK):
        return  # validation data come again each epoch
    try:
        batches = epoch_iterator.num_batches or 0  # unknown, or endless, is none
        # A single first step also traces: nothing can be said of its wait.
        fewest = 2 if has_one_epoch else 1
        is_short = has_short_epochs or fewest <= batches <= MOST_CALLS_OF_SHORT_EPOCH
        dataset = _measurable(epoch_iterator, is_short)
        if dataset is not None:
            epoch_iterator._distributed_dataset = dataset
            setattr(epoch_iterator, _MARK, True)
    except Exception as error:
        # Nothing was changed; should its wait turn out to be unknown, the record says so.
        logger.debug("keras_gpukit: a pipeline stays as it is: %s", error)


def _measurable(epoch_iterator: Any, is_short: bool) -> Any:
    """The dataset to take instead, or None."""
    import tensorflow as tf

    given, adapter = epoch_iterator._distributed_dataset, epoch_iterator.data_adapter
    is_distributed = not isinstance(given, tf.data.Dataset)
    if is_distributed and not (hasattr(adapter, "py_dataset") or hasattr(adapter, "_dataset")):
        return None  # of arrays it would make a copy, and their autotuning is on
    dataset = adapter.get_tf_dataset() if is_distributed else given
    if is_short and not is_distributed and epoch_iterator.steps_per_execution == 1:
        return with_timed_fetches(dataset)
    if is_autotuned(dataset):
        return None
    if is_distributed:
        strategy = epoch_iterator._distribute_strategy
        return strategy.experimental_distribute_dataset(with_model(dataset))
    if epoch_iterator.steps_per_execution > 1:
        try:
            return with_model(dataset)
        except ValueError:
            pass  # some of the wait may hide, but all of it can be measured
    return with_timed_fetches(dataset)
