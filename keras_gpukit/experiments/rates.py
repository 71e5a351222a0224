"""How fast batches are made, and how fast a model trains on batches that are there."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from keras_gpukit.experiments.sources import has_ended
from keras_gpukit.records.diagnosis import Rate

# Of so many, three that were disturbed are left out of the interval on either side.
ROUNDS = 15
# Of each stretch, what is not counted: buffers are emptied or filled, idle cores wake up.
SETTLING = 0.25
# Fewer say nothing, however long they take.
MINIMUM_CALLS = 3
# As many as training would have at hand; in memory together they may take this much.
HELD_BATCHES = 8
HELD_BYTES = 2**29

Call = Callable[[], Any]
Step = Callable[[Any], Any]
Experiment = Callable[[Step, Any], None]


def compute_rate(model: Any, batches: Any, *, seconds: float, rounds: int = ROUNDS) -> Rate:
    """Measures how fast a model trains on batches in memory, by its own compiled train step.

    It does train: call it within `untouched(model)`.

    Args:
        model: A compiled model.
        batches: Some batches in memory, from `hold`; they are trained on again and again.
        seconds: How long to measure. Tracing comes on top.
        rounds: Stretches that this time is divided into.
    """
    rates: list[float] = []

    def experiment(step: Step, iterator: Any) -> None:
        def train() -> Any:
            return step(iterator)

        run_for(train, seconds / rounds)
        batches_each = model.steps_per_execution
        rates.extend(rate_of(train, seconds / rounds, batches=batches_each) for _ in range(rounds))

    within_fit(model, replay(batches), experiment)
    return Rate.of(rates)


def rate_of(call: Call, seconds: float, *, batches: int = 1, settling: float = SETTLING) -> float:
    """Measures how often something can be done once it has settled.

    Args:
        call: What is done.
        seconds: How long, the settling included.
        batches: Batches in one call.
        settling: The share of the time that is not counted.

    Returns:
        Batches a second.
    """
    run_for(call, settling * seconds)
    began = time.perf_counter()
    calls = run_for(call, (1 - settling) * seconds, at_least=MINIMUM_CALLS)
    return calls * batches / (time.perf_counter() - began)


def run_for(call: Call, seconds: float, *, at_least: int = 1) -> int:
    """Calls again and again, and waits for the devices at the end.

    Returns:
        How many calls there were.
    """
    import tensorflow as tf

    calls = 0
    end = time.perf_counter() + seconds
    while calls < at_least or time.perf_counter() < end:
        call()
        calls += 1
    tf.test.experimental.sync_devices()
    return calls


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


def hold(iterator: Any, element_spec: Any = None, count: int = HELD_BATCHES) -> Any:
    """Takes some batches out of a pipeline.

    Args:
        iterator: Where they come from; batches that a strategy has divided are put together.
        element_spec: The pipeline's `element_spec`, so that nothing is traced again for these
            batches; by default theirs, with a batch size left open as Keras does.
        count: How many at most; fewer if they need more than 512 MiB.

    Returns:
        A finite `tf.data.Dataset` that gives these batches from memory.
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
    """Gives batches from memory again and again.

    Nothing in it needs tuning. And the thread that would do so may miss being cancelled and sleep
    on until it wanted to look again, for as long as the iterator has lived.

    Args:
        held: What `hold` returned.

    Returns:
        An endless `tf.data.Dataset`.
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
