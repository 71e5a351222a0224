"""Two replicas on two logical CPUs, with and without less memory; prints what differs."""

from __future__ import annotations

import json

import tensorflow as tf
from training.cases.models import deterministic_model, difference, random_model, trained

import keras_gpukit as gpukit


def main() -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    setup = gpukit.configure_gpus(strategy="mirrored", verbose=False)
    with setup.scope():
        parts = [
            trained(deterministic_model(), lambda model: None),
            trained(
                deterministic_model(), lambda m: gpukit.accumulate_gradients(m, micro_batches=3)
            ),
        ]
        twice = [
            trained(random_model(), lambda model: None),
            trained(random_model(), lambda model: gpukit.rematerialize(model, segments=3)),
        ]
    print(json.dumps({"parts": difference(*parts), "twice": difference(*twice)}))


if __name__ == "__main__":
    main()
