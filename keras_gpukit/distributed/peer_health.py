"""TensorFlow's health check of another worker, which also shows the round trip to it.

Private names, seen on TensorFlow 2.21: `tensorflow.python.eager.context.context()` and its
`check_collective_ops_peer_health`. `MultiWorkerMirroredStrategy` calls it for every worker every
30 s. If it is gone, round trips are unknown.
"""

from __future__ import annotations

from typing import Any

from keras_gpukit.errors import GPUKitError


def ask_peer(task: str, timeout_s: float) -> None:
    """Asks a worker whether it is alive, over the connection that collectives use, and waits.

    Args:
        task: TensorFlow's name of the worker, such as "/job:worker/replica:0/task:1".
        timeout_s: Maximum seconds to wait.

    Raises:
        Exception: If the worker does not answer, or is another process than at the start.
        GPUKitError: If this TensorFlow has no such health check.
    """
    from tensorflow.python.eager import context

    ask = getattr(context.context(), "check_collective_ops_peer_health", None)
    if ask is None:
        raise GPUKitError("this TensorFlow does not ask other workers for their health")
    ask(task, timeout_in_ms=int(timeout_s * 1000))


def tasks_of(model: Any) -> tuple[str, ...]:
    """Returns the names of all tasks that train in step, by worker index, the chief first.

    They include this process's task. Without a `MultiWorkerMirroredStrategy` there are none.
    """
    import tensorflow as tf

    strategy = getattr(model, "distribute_strategy", None)
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return ()
    cluster = strategy.cluster_resolver.cluster_spec().as_dict()
    return tuple(
        f"/job:{job}/replica:0/task:{task}"
        for job in ("chief", "worker")
        for task in range(len(cluster.get(job, ())))
    )
