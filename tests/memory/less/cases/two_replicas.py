"""Two replicas on two logical CPUs, with and without less memory; prints what differs."""

from __future__ import annotations

import json

import tensorflow as tf
from memory.less.cases.models import (
    difference,
    short_deterministic_model,
    short_random_model,
    trained,
)

import keras_gpukit as gpukit


def main() -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    setup = gpukit.configure_gpus(strategy="mirrored", verbose=False)
    with setup.scope():
        parts = [
            trained(short_deterministic_model(), lambda model: None),
            trained(
                short_deterministic_model(),
                lambda model: gpukit.accumulate_gradients(model, micro_batches=3),
            ),
        ]
        twice = [
            trained(short_random_model(), lambda model: None),
            trained(short_random_model(), lambda model: gpukit.rematerialize(model, segments=3)),
        ]
    print(json.dumps({"parts": difference(*parts), "twice": difference(*twice)}))


if __name__ == "__main__":
    main()
