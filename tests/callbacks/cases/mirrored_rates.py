"""Two replicas on two logical CPUs; prints the learning rates as JSON."""

from __future__ import annotations

import json

import keras
import numpy as np
import tensorflow as tf

from keras_gpukit import ScaledLearningRate, configure_gpus


class Rates(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))


(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
setup = configure_gpus(strategy="mirrored", verbose=False)
with setup.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.001), "mse", jit_compile=setup.jit_compile)
rates = Rates()
callbacks = [ScaledLearningRate(0.1, warmup_updates=2), rates]
inputs, targets = np.ones((16, 3), "float32"), np.ones((16, 1), "float32")
model.fit(inputs, targets, batch_size=4, verbose=0, callbacks=callbacks)
print(json.dumps({"rates": rates.seen}))
