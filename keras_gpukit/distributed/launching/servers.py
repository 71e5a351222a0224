"""Processes of a job that run no script but serve those that do; they run until they are killed.

python -m keras_gpukit.distributed.launching.servers training
python -m keras_gpukit.distributed.launching.servers dispatcher PORT
python -m keras_gpukit.distributed.launching.servers input-worker DISPATCHER_ADDRESS [OWN_HOST PORT]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


def main(role: str, *arguments: str) -> None:
    """Starts a server of a given role, and waits until it is killed."""
    # Otherwise TensorFlow logs twenty lines for each connection.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    roles: dict[str, Callable[..., None]] = {
        "training": _training,
        "dispatcher": _dispatcher,
        "input-worker": _input_worker,
    }
    roles[role](*arguments)


def _training() -> None:
    """Runs a parameter server, or a worker that gets work from the coordinator."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()  # reads TF_CONFIG
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
    ).join()


def _dispatcher(port: str) -> None:
    """Runs the dispatcher of a tf.data service, which hands out the work."""
    service = _input_service()
    service.DispatchServer(service.DispatcherConfig(port=int(port))).join()


def _input_worker(dispatcher: str, *own: str) -> None:
    """Runs a worker of a tf.data service, which produces elements."""
    service = _input_service()
    places = {"worker_address": f"{own[0]}:{own[1]}", "port": int(own[1])} if own else {}
    service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher, **places)).join()


def _input_service() -> Any:
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # input is produced on CPUs
    import tensorflow as tf

    return tf.data.experimental.service


if __name__ == "__main__":
    main(*sys.argv[1:])
