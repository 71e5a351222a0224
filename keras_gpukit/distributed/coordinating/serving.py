"""Runs a worker or a parameter server, which serves the coordinator until the coordinator ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from keras_gpukit.distributed.meeting import answers
from keras_gpukit.records.cluster import Cluster

_LOOK_EVERY_S = 1.0
_GONE_AFTER_S = 10.0
"""Seconds without an answer after which the coordinator has ended; its port may be busy briefly."""


def serve(cluster: Cluster) -> None:
    """Serves the coordinator until it has ended."""
    import tensorflow as tf

    spec = tf.train.ClusterSpec({role: list(all_) for role, all_ in cluster.addresses.items()})
    server = tf.distribute.Server(
        spec, job_name=cluster.task_type, task_index=cluster.task_index, protocol="grpc"
    )
    (coordinator,) = cluster.addresses["chief"]
    wait_for_end(lambda: answers(coordinator))
    del server


def wait_for_end(
    is_there: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Returns once `is_there` has been False for ten seconds."""
    last_seen = clock()
    while clock() - last_seen < _GONE_AFTER_S:
        sleep(_LOOK_EVERY_S)
        if is_there():
            last_seen = clock()
