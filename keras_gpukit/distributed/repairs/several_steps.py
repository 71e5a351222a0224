"""Lets Keras run several steps per execution when replicas communicate by collectives.

Keras 3.12 to 3.16 traces the step as a separate function inside `tf.while_loop` and `tf.cond`.
TensorFlow 2.21 numbers a collective when the function that contains it is called. It passes the
number through control flow, but not through a function within control flow: `You must feed a value
for placeholder tensor … with dtype int32`. Here the steps follow each other in one function. Each
step after the first is in a `tf.cond` on whether there is another batch.

The repair applies to strategies with several replicas, in graph mode, without XLA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_gpukit.distributed.repairs.keras_private import trainer_module
from keras_gpukit.sensors.older_keras import trainer_class


def take_steps_in_one_function(trainer: Any) -> None:
    """Makes Keras run all steps of an execution in one function."""
    trains = trainer_class(trainer)
    original, _ = trains._make_function, trains._autoconvert_optionals  # a step needs both

    def _make_function(self: Any, step_function: Callable[[Any], Any]) -> Any:
        function = original(self, step_function)
        return _several_steps(self, step_function, function) if _concerns(self) else function

    trains._make_function = _make_function


def _concerns(model: Any) -> bool:
    import tensorflow as tf

    collective = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)
    return (
        model.steps_per_execution > 1
        and isinstance(model.distribute_strategy, collective)
        and model.distribute_strategy.num_replicas_in_sync > 1
        and not model.run_eagerly
        and not model.jit_compile
    )


def _several_steps(model: Any, step_function: Callable[[Any], Any], original: Any) -> Any:
    import tensorflow as tf

    strategy = model.distribute_strategy
    trainer = trainer_module()

    def one_step(data: Any) -> Any:
        outputs = strategy.run(step_function, args=(data,))
        return trainer.reduce_per_replica(outputs, strategy, reduction="auto")

    step = model._autoconvert_optionals(one_step)

    def next_step(iterator: Any, before: Any) -> Any:
        batch = iterator.get_next_as_optional()
        return tf.cond(batch.has_value(), lambda: step(batch.get_value()), lambda: before)

    @tf.function(reduce_retracing=True, autograph=False)  # type: ignore[untyped-decorator]
    def several_steps(iterator: Any) -> Any:
        # If no batch is left, this raises OutOfRangeError, which ends the epoch like StopIteration.
        outputs = step(iterator.get_next())
        for _ in range(model.steps_per_execution - 1):
            outputs = next_step(iterator, outputs)
        return outputs

    def function(iterator: Any) -> Any:
        if isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
            return several_steps(iterator)
        return original(iterator)  # train_on_batch

    return function
