"""On two logical CPUs, a layer on another one than its variables, and replicas; prints both."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from placement.cases.watching import HostBound, make_model, watched_fit

import keras_gpukit as gpukit
from keras_gpukit.records import to_dict

EXAMPLES, WIDE, NARROW = 6, 512, 128


class Elsewhere(keras.layers.Layer):
    """A dense layer, its product on CPU:1, and a name of no device for its activation."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], NARROW), name="kernel")

    def call(self, x):
        with tf.device("CPU:1"):
            product = tf.linalg.matmul(x, self.kernel)
        with tf.device("GPU:7"):
            return tf.nn.softplus(product)


def main() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    found = {mode: placed(mode) for mode in ("one", "several")}
    print(json.dumps({**found, "mirrored": mirrored()}))


def mirrored() -> dict[str, Any]:
    """What two replicas give."""
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        record = watched_fit(make_model(HostBound()))
    causes = [fallback.cause for fallback in record.fallbacks]
    return {"operations": record.operations, "transfers": record.transfers, "causes": causes}


def placed(mode: str) -> dict[str, Any]:
    inputs, targets = np.ones((24, WIDE), "float32"), np.ones((24, 1), "float32")
    batches = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(EXAMPLES)
    model = keras.Sequential([keras.Input((WIDE,)), Elsewhere(name="far"), keras.layers.Dense(1)])
    steps = 2 if mode == "several" else 1
    model.compile("sgd", "mse", jit_compile=False, steps_per_execution=steps)
    placement = gpukit.DevicePlacement(None)
    model.fit(batches, verbose=0, callbacks=[placement])
    return to_dict(placement.summary)


if __name__ == "__main__":
    main()
