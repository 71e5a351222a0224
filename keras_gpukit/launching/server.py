"""A parameter server, or a worker of an asynchronous job: a server of TensorFlow and no script.

    python -m keras_gpukit.launching.server

Its place in the cluster is in `TF_CONFIG`. The coordinator, which runs the script, gives it work.
It runs until it is killed.
"""

from __future__ import annotations

import os


def main() -> None:
    """Starts the server, and waits."""
    # Else each connection is logged in twenty lines.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
    ).join()


if __name__ == "__main__":
    main()
