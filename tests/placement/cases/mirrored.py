"""Two replicas on two logical CPUs; prints what the test checks, as JSON."""

from __future__ import annotations

import json

import tensorflow as tf
from placement.cases.watching import HostBound, make_model, trained, watched_fit


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        record = watched_fit(make_model(HostBound()))
        found = {
            "operations": record.operations,
            "transfers": record.transfers,
            "causes": [fallback.cause for fallback in record.fallbacks],
            "bit_identical": trained(watch=True) == trained(watch=False),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
