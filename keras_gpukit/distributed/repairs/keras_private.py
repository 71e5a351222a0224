"""Keras' private names that the repairs replace, and whether a model trains on several workers.

Seen on Keras 3.12, 3.15 and 3.16, in `keras.src.backend.tensorflow.trainer`: its trainer (see
`older_keras`) with `_maybe_symbolic_build`, `_make_function` and `make_predict_function`,
`reduce_per_replica`, and `TFEpochIterator` with `_distribute_strategy` and `_distributed_dataset`.
If one is gone, its repair is not applied, and a warning says so.
"""

from __future__ import annotations

from typing import Any


def trainer_module() -> Any:
    """Returns Keras' module of the TensorFlow trainer; None if this Keras has no such module."""
    try:
        from keras.src.backend.tensorflow import trainer
    except ImportError:
        return None
    return trainer


def is_multi_worker(strategy: Any) -> bool:
    """Whether a strategy trains in step with other processes."""
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    resolver = strategy.cluster_resolver
    # Without a cluster it is a MirroredStrategy under another name.
    return resolver is not None and bool(resolver.cluster_spec().as_dict())


def is_chief(strategy: Any) -> bool:
    """Whether this process is the chief, which writes the files that its cluster shares."""
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec().as_dict()
    first = "chief" if "chief" in cluster else "worker"
    return (resolver.task_type, resolver.task_id) == (first, 0)
