"""A model with a layer on another device than its variables; prints what is copied."""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

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
    print(json.dumps({mode: placed(mode) for mode in sys.argv[1:]}))


def placed(mode: str) -> dict[str, Any]:
    inputs, targets = np.ones((24, WIDE), "float32"), np.ones((24, 1), "float32")
    batches = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(EXAMPLES)
    model = keras.Sequential([keras.Input((WIDE,)), Elsewhere(name="far"), keras.layers.Dense(1)])
    model.compile(
        "sgd", "mse", jit_compile=False, steps_per_execution=2 if mode == "several" else 1
    )
    placement = gpukit.DevicePlacement(None)
    model.fit(batches, verbose=0, callbacks=[placement])
    return to_dict(placement.summary)


if __name__ == "__main__":
    main()
