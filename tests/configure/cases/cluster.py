"""A cluster whose other worker never comes, and one that is asked for too late."""

import json
import os

from helpers.clusters import free_addresses
from stand_in import refused

own, missing = free_addresses(2)
cluster = {"worker": [own, missing]}
os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})

from keras_gpukit import configure_gpus, errors  # noqa: E402

# A cluster is read only where it is asked for, or "auto" chooses.
assert configure_gpus(strategy="none", verbose=False).is_chief
late = {"strategy": "auto", "seed": 0, "worker_timeout_s": 1, "verbose": False}
refused(errors.WorkerError, f"worker 1 at {missing} did not answer within 1 s", **late)
refused(ValueError, "needs one chief", strategy="parameter_server", verbose=False)

import tensorflow as tf  # noqa: E402

tf.constant(0)  # starts the devices
late = {"strategy": "multi_worker", "seed": 0, "verbose": False}
words = f"too late for: multi_worker_strategy = TF_CONFIG: worker 0 at {own}"
refused(errors.AlreadyInitializedError, words, **late)
os.environ["TF_CONFIG"] = '{"cluster": {"worker": ["a:1", "b:1"]}}'
refused(errors.ClusterError, "TF_CONFIG", verbose=False)
