"""Runs an experiment where Keras itself would train."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from keras_gpukit.measuring.held_batches import has_ended

Step = Callable[[Any], Any]
Experiment = Callable[[Step, Any], None]


def within_fit(model: Any, source: Any, experiment: Experiment) -> None:
    """Runs an experiment in the place where `fit` would train.

    So iterators and step function are those that Keras itself makes. The step function is made
    anew: what was traced for the user's training neither helps nor suffers. No callback runs.

    Args:
        model: A compiled model; call it within `untouched(model)`.
        source: What `fit` takes, endless.
        experiment: Given the step function and the iterator that Keras would call it with.

    Raises:
        ValueError: If the source ran out of batches.
        BaseException: What the experiment raised, once Keras has stopped a PyDataset's workers.
    """
    import keras
    import tensorflow as tf

    finished = False
    failure: BaseException | None = None

    def take_over(logs: Any = None) -> None:
        step = model.train_function

        def once(iterator: Any) -> None:
            nonlocal finished, failure
            try:
                experiment(step, iterator)
                finished = True
            except (StopIteration, tf.errors.OutOfRangeError):
                pass  # the source ran out
            except BaseException as error:
                failure = error
            # As at an epoch's end, where Keras stops the workers of a PyDataset.
            raise StopIteration

        model.train_function = once

    model.train_function = None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Your input ran out of data")
        warnings.filterwarnings("ignore", ".*shuffle=True. was passed")
        begin = keras.callbacks.LambdaCallback(on_train_begin=take_over)
        try:
            model.fit(source, epochs=1, verbose=0, callbacks=[begin])
        except Exception:
            # An epoch without a step may be one that Keras cannot sum up.
            if failure is None:
                raise
    if failure is not None:
        raise failure
    if not finished:
        raise has_ended()
