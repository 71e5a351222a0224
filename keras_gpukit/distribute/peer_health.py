"""TensorFlow's own question to another worker whether it is alive, which shows the round trip.

Private names, seen on TensorFlow 2.21: `tensorflow.python.eager.context.context()` and its
`check_collective_ops_peer_health`. `MultiWorkerMirroredStrategy` asks every worker with it each
30 s. Where it is gone, round trips are unknown.
"""

from __future__ import annotations

from typing import Any

from keras_gpukit.errors import GPUKitError


def ask_peer(task: str, timeout_s: float) -> None:
    """Asks a worker whether it is alive, over the connection that collectives use, and waits.

    Args:
        task: Such as "/job:worker/replica:0/task:1".
        timeout_s: For how long at most.

    Raises:
        Exception: If it does not answer, or is another process than at the start.
        GPUKitError: If this TensorFlow has no such question.
    """
    from tensorflow.python.eager import context

    ask = getattr(context.context(), "check_collective_ops_peer_health", None)
    if ask is None:
        raise GPUKitError("this TensorFlow does not ask other workers for their health")
    ask(task, timeout_in_ms=int(timeout_s * 1000))


def tasks_of(model: Any) -> tuple[str, ...]:
    """The names of the tasks that train in step with this one, by worker index, the chief first.

    Empty outside a `MultiWorkerMirroredStrategy`.
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
