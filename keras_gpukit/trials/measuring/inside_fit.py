"""Runs an experiment at the point in `fit` where Keras itself would train."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from keras_gpukit.trials.measuring.held_batches import has_ended

Step = Callable[[Any], Any]
Experiment = Callable[[Step, Any], None]


def within_fit(model: Any, source: Any, experiment: Experiment) -> None:
    """Runs an experiment at the point where `fit` would train.

    The iterator and the step function are therefore those that Keras itself makes. The step
    function is rebuilt, so the traces of the user's own training are neither used nor changed. No
    callback of the user runs. Call this within `untouched(model)`.

    Args:
        model: A compiled model.
        source: Endless source of batches, of any type that `fit` accepts.
        experiment: Called with the step function and the iterator that Keras would pass to it.

    Raises:
        ValueError: If the source ran out of batches.
        BaseException: Any exception that the experiment raised, after Keras has stopped the
            workers of a PyDataset.
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
            # Ends the epoch, where Keras stops the workers of a PyDataset.
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
            # Keras may fail to compute the logs of an epoch without a step.
            if failure is None:
                raise
    if failure is not None:
        raise failure
    if not finished:
        raise has_ended()


def without_model(source: Any, experiment: Experiment) -> None:
    """Runs an experiment with the iterator that Keras makes over a source.

    Args:
        source: Endless source of batches, of any type that `fit` accepts.
        experiment: Called with a step function that does nothing, and the iterator.

    Raises:
        ValueError: If the source ran out of batches.
    """
    import keras

    class Idle(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> dict[str, Any]:
            return {}

    model = Idle()
    model.compile(jit_compile=False)
    within_fit(model, source, experiment)
