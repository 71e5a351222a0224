"""Ends `fit`, `evaluate` and `predict` with an error that names the lost worker.

TensorFlow 2.21 notices a lost worker after about ten seconds. Its error shows where in the model
the collective was. It mentions `/job:worker/replica:0/task:1` before and after that.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from keras_gpukit.distributed.repairs.keras_private import is_multi_worker
from keras_gpukit.errors import WorkerError

# grpc_status 14 is UNAVAILABLE: the connection to another process broke.
_LOST = ("stopped sending heartbeats", "Socket closed", "grpc_status:14")
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


def name_lost_workers() -> None:
    """Wraps methods of `keras.Model`; only errors of models on several workers are affected."""
    import keras

    for name in ("fit", "evaluate", "predict"):
        setattr(keras.Model, name, _naming(getattr(keras.Model, name)))


def lost_tasks(message: str, own: tuple[str, int]) -> list[tuple[str, int]]:
    """Returns the tasks that a TensorFlow error names as lost, without this process's own task."""
    if not any(sign in message for sign in _LOST):
        return []
    named = {(role, int(index)) for role, index in _TASK.findall(message)}
    return sorted(named - {own})


def _naming(original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf

        try:
            return original(self, *args, **kwargs)
        except tf.errors.OpError as error:
            strategy: Any = getattr(self, "distribute_strategy", None)
            if not is_multi_worker(strategy):
                raise
            resolver = strategy.cluster_resolver
            lost = lost_tasks(error.message, (resolver.task_type, resolver.task_id))
            if not lost:
                raise
            cluster = resolver.cluster_spec().as_dict()
            names = ", ".join(f"{role} {i} at {cluster[role][i]}" for role, i in lost)
            raise WorkerError(
                f"Lost contact with {names}: it ended, or its machine or network failed. Its own "
                "log says why. All workers have to be started again; with "
                "keras.callbacks.BackupAndRestore they resume from the chief's last backup."
            ) from error

    return call
