"""A cluster whose other worker never comes, and one that is asked for too late."""

import json
import os

from helpers.clusters import free_addresses
from stand_in import raises

own, missing = free_addresses(2)
cluster = {"worker": [own, missing]}
os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})

from keras_gpukit import configure_gpus, errors  # noqa: E402

# A cluster is read only where it is asked for, or "auto" chooses.
assert configure_gpus(strategy="none", verbose=False).is_chief
raises(
    errors.WorkerError,
    f"worker 1 at {missing} did not answer within 1 s",
    call=lambda: configure_gpus(strategy="auto", seed=0, worker_timeout_s=1, verbose=False),
)
raises(
    ValueError,
    "needs one chief",
    call=lambda: configure_gpus(strategy="parameter_server", verbose=False),
)

import tensorflow as tf  # noqa: E402

tf.constant(0)  # starts the devices
raises(
    errors.AlreadyInitializedError,
    f"too late for: multi_worker_strategy = TF_CONFIG: worker 0 at {own}",
    call=lambda: configure_gpus(strategy="multi_worker", seed=0, verbose=False),
)
os.environ["TF_CONFIG"] = '{"cluster": {"worker": ["a:1", "b:1"]}}'
raises(errors.ClusterError, "TF_CONFIG", call=lambda: configure_gpus(verbose=False))
