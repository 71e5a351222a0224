"""Repairs of Keras' training under `tf.distribute`, each made once.

A Keras whose private names differ is left as it is, with a warning. Under strategies that a repair
does not concern, training stays Keras' own. `several_workers` has those of callbacks and errors.

**Building.** Under a `MultiWorkerMirroredStrategy`, Keras 3.12 to 3.15 builds the model from a
distributed batch, which no layer accepts (`Attempt to convert a value (PerReplica…`,
https://github.com/keras-team/keras/issues/20585). Here it is built from this worker's part, since
only shapes and dtypes matter. Under any strategy Keras reads a batch to build the model, and then
restarts the data. With `workers=2` or more, the first epoch of a `keras.utils.PyDataset` gets the
batches that the workers had prepared by then, and lacks others. Each later epoch starts with
batches left over from the previous one. Here the model is built from the types and shapes that
Keras already knows.

**Averaging.** Keras 3.12 to 3.15 averages metrics, which are scalars, along their first axis
(`Invalid reduction dimension 0`, the same issue). Here they are averaged over the replicas of a
`MultiWorkerMirroredStrategy`, all metrics of a step in one collective.

**Several steps.** Keras 3.12 to 3.16 traces the step as a separate function inside `tf.while_loop`
and `tf.cond`. TensorFlow 2.21 numbers a collective when the function that contains it is called. It
passes the number through control flow, but not through a function within control flow: `You must
feed a value for placeholder tensor … with dtype int32`. Here the steps follow each other in one
function. Each step after the first is in a `tf.cond` on whether there is another batch. The repair
applies to strategies with several replicas, in graph mode, without XLA.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from keras_gpukit.distributed.repairs.several_workers import (
    is_multi_worker,
    repair_callbacks_and_calls,
    replace_method,
)
from keras_gpukit.errors import GPUKitWarning
from keras_gpukit.frameworks import keras_trainer
from keras_gpukit.frameworks.keras_trainer import trainer_module
from keras_gpukit.frameworks.older_keras import trainer_class


def _average(original: Any, values: Any, strategy: Any, reduction: str) -> Any:
    """Averages metrics over the replicas."""
    if reduction in ("auto", "mean") and is_multi_worker(strategy):
        return _mean(values, strategy)
    return original(values, strategy, reduction)


def _mean(values: Any, strategy: Any) -> Any:
    """Averages each value in a structure; scalars of the same type share a single collective."""
    import keras
    import tensorflow as tf

    flat = keras.tree.flatten(values)
    local = [strategy.experimental_local_results(value)[0] for value in flat]
    alike = {(tensor.dtype, tensor.shape.rank) for tensor in map(tf.convert_to_tensor, local)}
    if len(flat) > 1 and len(alike) == 1 and alike.pop()[1] == 0:
        stacked = strategy.run(lambda *scalars: tf.stack(scalars), args=tuple(flat))
        means = tf.unstack(strategy.reduce("MEAN", stacked, axis=None), num=len(flat))
    else:
        means = [strategy.reduce("MEAN", value, axis=None) for value in flat]
    return keras.tree.pack_sequence_as(values, means)


def _build_from(
    batch_of: Callable[[Any, Any], Any],
    original: Any,
    model: Any,
    iterator: Any = None,
    data_batch: Any = None,
) -> None:
    """Builds a model from a batch that a function returns, unless it returns None."""
    given = None if iterator is None else batch_of(model, iterator)
    if given is not None:
        iterator, data_batch = None, given
    original(model, iterator=iterator, data_batch=data_batch)


def _own_part(model: Any, iterator: Any) -> Any:
    """Returns this worker's part of a distributed batch."""
    import keras

    strategy = model.distribute_strategy
    if not is_multi_worker(strategy):
        return None
    _, _, batches = next(iter(iterator))
    local = strategy.experimental_local_results
    return keras.tree.map_structure(lambda value: local(value)[0], next(batches))


def _signature(model: Any, iterator: Any) -> Any:
    """Returns the types and shapes of the batches of a `PyDataset` with workers."""
    adapter: Any = getattr(iterator, "data_adapter", None)
    if getattr(adapter, "enqueuer", None) is None:
        return None
    return keras_trainer.output_signature(adapter)


def _take_steps_in_one_function(trainer: Any) -> None:
    trains = trainer_class(trainer)
    getattr(trains, keras_trainer.CONVERT_OPTIONALS)  # a step needs it, too
    replace_method(trains, keras_trainer.MAKE_STEPS, _make_steps)


def _make_steps(original: Any, model: Any, step_function: Callable[[Any], Any]) -> Any:
    function = original(model, step_function)
    return _several_steps(model, step_function, function) if _concerns(model) else function


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

    step = getattr(model, keras_trainer.CONVERT_OPTIONALS)(one_step)

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


def _building(batch_of: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    return lambda trainer: replace_method(
        trainer_class(trainer), keras_trainer.BUILD, _build_from, batch_of
    )


Repair = tuple[str, Callable[[Any], None]]
"""Short description of what is repaired, and the function that repairs Keras' trainer module."""
PARAMETER_SERVER: tuple[Repair, ...] = (
    ("building from a batch of a PyDataset's workers", _building(_signature)),
)
"""Repairs that a `ParameterServerStrategy` needs; the coordinator does the rest."""
MIRRORED: tuple[Repair, ...] = (
    ("several steps per execution", _take_steps_in_one_function),
    *PARAMETER_SERVER,
)
"""Repairs that a `MirroredStrategy` over GPUs needs."""
_MULTI_WORKER: tuple[Repair, ...] = (
    ("building from a distributed batch", _building(_own_part)),
    (
        "averaging metrics over workers",
        lambda trainer: replace_method(trainer, "reduce_per_replica", _average),
    ),
    *MIRRORED,
)
_done: set[str] = set()


def repair_multi_worker() -> None:
    """Makes the repairs that a strategy over several workers needs."""
    repair(*_MULTI_WORKER)
    if "callbacks" not in _done:
        _done.add("callbacks")
        repair_callbacks_and_calls()


def repair(*repairs: Repair) -> None:
    """Makes repairs of Keras' trainer that have not been made yet."""
    trainer = trainer_module()
    for what, make in repairs if trainer is not None else ():
        if what in _done:
            continue
        _done.add(what)
        try:
            make(trainer)
        except AttributeError as error:  # private names: a newer Keras may have others
            import keras

            warnings.warn(
                f"keras_gpukit does not know Keras {keras.__version__} well enough for a repair "
                f"({what}), and leaves it as it is. The cause: {error}",
                GPUKitWarning,
                stacklevel=3,
            )
