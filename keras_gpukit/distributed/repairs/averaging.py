"""Averages metrics over several workers.

Keras 3.12 to 3.15 averages metrics, which are scalars, along their first axis (`Invalid reduction
dimension 0`, https://github.com/keras-team/keras/issues/20585). Here they are averaged over the
replicas of a `MultiWorkerMirroredStrategy`, all metrics of a step in one collective.
"""

from __future__ import annotations

from typing import Any

from keras_gpukit.distributed.repairs.keras_private import is_multi_worker


def average_over_replicas(trainer: Any) -> None:
    """Makes Keras average metrics over the replicas."""
    original = trainer.reduce_per_replica

    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction in ("auto", "mean") and is_multi_worker(strategy):
            return _mean(values, strategy)
        return original(values, strategy, reduction)

    trainer.reduce_per_replica = reduce_per_replica


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
