"""Lets Keras handle values that are distributed over several workers.

Keras 3.12 to 3.15 cannot train under a `MultiWorkerMirroredStrategy`, because of two faults in its
TensorFlow trainer (https://github.com/keras-team/keras/issues/20585):

- The model is built from a distributed batch, which no layer accepts (`Attempt to convert a value
  (PerReplica…`). Here it is built from this worker's part, since only shapes and dtypes matter.
- Metrics, which are scalars, are averaged along their first axis (`Invalid reduction dimension 0`).
  Here they are averaged over the replicas, all metrics of a step in one collective.

The repairs affect only models under such a strategy.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from keras_gpukit.distributed.repairs.keras_private import is_multi_worker


def builds_from_distributed_batch(trainer: Any) -> bool:
    """Whether Keras builds models from distributed batches; tested with stand-ins, no cluster."""
    import keras
    import tensorflow as tf

    class Part(tf.distribute.DistributedValues):  # type: ignore[misc]
        """A distributed batch."""

    built_from: list[Any] = []
    strategy = stand_in([])
    model = SimpleNamespace(
        _distribute_strategy=strategy,
        distribute_strategy=strategy,
        _symbolic_build=lambda data_batch: built_from.extend(keras.tree.flatten(data_batch)),
    )
    batches = iter([(Part(),)])
    trainer.TensorFlowTrainer._maybe_symbolic_build(model, iterator=[(0, 0, batches)])
    return any(isinstance(each, Part) for each in built_from)


def averages_along_an_axis(trainer: Any) -> bool:
    """Whether Keras averages scalar metrics along an axis; tested with stand-ins, no cluster."""
    import tensorflow as tf

    axes: list[Any] = []
    trainer.reduce_per_replica(tf.constant(1.0), stand_in(axes), "auto")
    return any(axis is not None for axis in axes)


def build_from_own_part(trainer: Any) -> None:
    """Makes Keras build a model from this worker's part of a distributed batch."""
    original = trainer.TensorFlowTrainer._maybe_symbolic_build

    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self._distribute_strategy
        if iterator is not None and is_multi_worker(strategy):
            _, _, batches = next(iter(iterator))
            data_batch = _own_part(strategy, next(batches))
            iterator = None
        original(self, iterator=iterator, data_batch=data_batch)

    trainer.TensorFlowTrainer._maybe_symbolic_build = _maybe_symbolic_build


def average_over_replicas(trainer: Any) -> None:
    """Makes Keras average metrics over the replicas."""
    original = trainer.reduce_per_replica

    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction in ("auto", "mean") and is_multi_worker(strategy):
            return _mean(values, strategy)
        return original(values, strategy, reduction)

    trainer.reduce_per_replica = reduce_per_replica


def _own_part(strategy: Any, batch: Any) -> Any:
    import keras

    return keras.tree.map_structure(lambda v: strategy.experimental_local_results(v)[0], batch)


def _mean(values: Any, strategy: Any) -> Any:
    """Averages each value in a structure; scalars of the same type share a single collective."""
    import keras
    import tensorflow as tf

    flat = keras.tree.flatten(values)
    local = [strategy.experimental_local_results(value)[0] for value in flat]
    alike = {(each.dtype, each.shape.rank) for each in map(tf.convert_to_tensor, local)}
    if len(flat) > 1 and len(alike) == 1 and alike.pop()[1] == 0:
        stacked = strategy.run(lambda *each: tf.stack(each), args=tuple(flat))
        means = tf.unstack(strategy.reduce("MEAN", stacked, axis=None), num=len(flat))
    else:
        means = [strategy.reduce("MEAN", value, axis=None) for value in flat]
    return keras.tree.pack_sequence_as(values, means)


def stand_in(axes: list[Any]) -> Any:
    """Returns an object that Keras takes for a multi-worker strategy; it notes reductions' axes."""
    import tensorflow as tf

    class StandIn(tf.distribute.MultiWorkerMirroredStrategy):  # type: ignore[misc]
        extended = SimpleNamespace(_in_multi_worker_mode=lambda: True)

        def __init__(self) -> None:
            pass  # a real one would start a server

        def scope(self) -> Any:
            return nullcontext()

        def reduce(self, reduce_op: str, value: Any, axis: Any = None) -> Any:
            axes.append(axis)
            return value

        def experimental_local_results(self, value: Any) -> Any:
            return (tf.ones((2, 3)),)

    return StandIn()
