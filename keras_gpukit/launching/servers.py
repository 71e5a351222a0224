"""Processes of a job that run no script, but serve those that do. They run until they are killed.

python -m keras_gpukit.launching.servers training
python -m keras_gpukit.launching.servers dispatcher PORT
python -m keras_gpukit.launching.servers input-worker DISPATCHER_ADDRESS [OWN_HOST PORT]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


def main(role: str, *arguments: str) -> None:
    """Starts a server, and waits."""
    # Else each connection is logged in twenty lines.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    roles: dict[str, Callable[..., None]] = {
        "training": _training,
        "dispatcher": _dispatcher,
        "input-worker": _input_worker,
    }
    roles[role](*arguments)


def _training() -> None:
    """A parameter server, or a worker of an asynchronous job: the coordinator gives it work."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()  # of `TF_CONFIG`
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
    ).join()


def _dispatcher(port: str) -> None:
    """The process of a tf.data service that hands out its work."""
    service = _input_service()
    service.DispatchServer(service.DispatcherConfig(port=int(port))).join()


def _input_worker(dispatcher: str, *own: str) -> None:
    """A process of a tf.data service that makes elements."""
    service = _input_service()
    places = {"worker_address": f"{own[0]}:{own[1]}", "port": int(own[1])} if own else {}
    service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher, **places)).join()


def _input_service() -> Any:
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # input is made on CPUs
    import tensorflow as tf

    return tf.data.experimental.service


if __name__ == "__main__":
    main(*sys.argv[1:])
