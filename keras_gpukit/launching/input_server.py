"""A process of a tf.data service: the dispatcher, or a worker that makes elements.

    python -m keras_gpukit.launching.input_server dispatcher PORT
    python -m keras_gpukit.launching.input_server worker DISPATCHER_ADDRESS [OWN_HOST PORT]

It runs until it is killed.
"""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> None:
    """Starts the server, and waits."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # input is made on CPUs
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    import tensorflow as tf

    service = tf.data.experimental.service
    role, address, *own = arguments
    if role == "dispatcher":
        config = service.DispatcherConfig(port=int(address))
        service.DispatchServer(config).join()
        return
    places = {"worker_address": f"{own[0]}:{own[1]}", "port": int(own[1])} if own else {}
    service.WorkerServer(service.WorkerConfig(dispatcher_address=address, **places)).join()


if __name__ == "__main__":
    main(sys.argv[1:])
