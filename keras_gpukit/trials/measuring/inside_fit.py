"""Runs experiments where `fit` would train, and holds batches in memory for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

# The number of batches that training would have ready, and the memory they may take together.
HELD_BATCHES = 8
HELD_BYTES = 2**29

Step = Callable[[Any], Any]
Experiment = Callable[[Step, Any], None]


def within_fit(model: Any, source: Any, experiment: Experiment) -> None:
    """Runs an experiment at the point where `fit` would train.

    The iterator and the step function are therefore those that Keras itself makes. The step
    function is rebuilt, so the traces of the user's own training are neither used nor changed. No
    callback of the user runs. Call this within `untouched(model)`.

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
    """Runs an experiment with the iterator that Keras makes over a source."""
    import keras

    class Idle(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> dict[str, Any]:
            return {}

    model = Idle()
    model.compile(jit_compile=False)
    within_fit(model, source, experiment)


def hold(iterator: Any, element_spec: Any = None, count: int = HELD_BATCHES) -> Any:
    """Takes some batches from a pipeline into memory, as a finite `tf.data.Dataset`.

    Args:
        iterator: Iterator of the pipeline. Batches that a strategy has split are joined again.
        element_spec: The pipeline's `element_spec`, so that these batches cause no new trace. By
            default that of the batches, with an open batch size as in Keras.
        count: Maximum number of batches. There are fewer if they take more than 512 MiB.
    """
    import tensorflow as tf

    held: Any = None
    size = 0
    for _ in range(count):
        try:
            batch = tf.nest.map_structure(_put_together, next(iterator))
        except StopIteration:
            raise has_ended() from None
        one = tf.data.Dataset.from_tensors(batch)
        held = one if held is None else held.concatenate(one)
        size += _size(batch)
        if size > HELD_BYTES:
            break
    if element_spec is None:
        element_spec = tf.nest.map_structure(_leave_open, held.element_spec)
    variant = tf.data.experimental.to_variant(held)
    return tf.data.experimental.from_variant(variant, element_spec)


def replay(held: Any) -> Any:
    """Returns an endless dataset that repeats batches from memory.

    Autotuning is off because there is nothing to tune. Its thread may also miss its cancellation
    and then sleep for as long as the iterator has lived.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return held.repeat().prefetch(HELD_BATCHES).with_options(options)


def _put_together(part: Any) -> Any:
    import tensorflow as tf

    divided = isinstance(part, tf.distribute.DistributedValues)
    return tf.concat(part.values, axis=0) if divided else part


def _leave_open(spec: Any) -> Any:
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        return spec
    return tf.TensorSpec((None, *spec.shape[1:]), spec.dtype)


def _size(batch: Any) -> int:
    import tensorflow as tf

    tensors = tf.nest.flatten(batch, expand_composites=True)
    known = [tensor for tensor in tensors if tensor is not None]
    return sum(int(tf.size(tensor)) * tensor.dtype.size for tensor in known)


def has_ended() -> ValueError:
    """Returns the error for a dataset that ended although it should be endless."""
    return ValueError(
        "dataset must have at least one batch, and it must be possible to iterate over it again, "
        "which an exhausted generator does not allow. Received: a dataset that ended"
    )
