"""All-reduces of two replicas on logical CPUs, traced with clock readings around them and without.

Prints a JSON object.
"""

from __future__ import annotations

import json
import time

import tensorflow as tf

from keras_gpukit.distributed.worker_times import collective_clock

LATE_S = 0.2
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def late(value):
    time.sleep(LATE_S)
    return value


def replica():
    index = tf.distribute.get_replica_context().replica_id_in_sync_group
    value = tf.linspace(0.1, 1.7, 999) * tf.cast(index + 1, tf.float32)
    if tf.get_static_value(index) == 1:
        value = tf.ensure_shape(tf.numpy_function(late, [value], tf.float32), [999])
    return tf.distribute.get_replica_context().all_reduce("sum", value)


def reduced():
    """Traces the replicas, runs them twice, and returns what they came to."""
    function = tf.function(lambda: strategy.run(replica))
    function()
    values = strategy.experimental_local_results(function())[0]
    return values.numpy().tobytes().hex()


from tensorflow.python.distribute.cross_device_utils import CollectiveReplicaLauncher  # noqa: E402

own_method = CollectiveReplicaLauncher.all_reduce
plain = reduced()
clock = collective_clock()
clock.install()
clock.install()
before_s = clock.total_s
began_s = time.monotonic()
clocked = reduced()
took_s = time.monotonic() - began_s
waited_s = clock.total_s - before_s
clock.remove()
still_clocked = CollectiveReplicaLauncher.all_reduce is not own_method
clock.remove()
print(
    json.dumps(
        {
            "same": plain == clocked,
            "waited_s": waited_s,
            "took_s": took_s,
            "still_clocked": still_clocked,
            "restored": CollectiveReplicaLauncher.all_reduce is own_method,
        }
    )
)
