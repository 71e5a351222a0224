"""Trains a small model; prints its peak memory and what was predicted. Argument: batch size."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import keras_gpukit as gpukit

batch_size = int(sys.argv[1])
layers = [keras.Input((32, 32, 3))]
for filters in (32, 48, 64):
    layers += [
        keras.layers.Conv2D(filters, 3, padding="same"),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
    ]
model = keras.Sequential([*layers, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)])
model.compile("adam", "mse", jit_compile=False)
batch = np.zeros((batch_size, 32, 32, 3), "float32"), np.zeros((batch_size, 10), "float32")
predicted = gpukit.predict_memory(model, batch, verbose=False)
monitor = gpukit.Monitor(None, verbose=0, predict_memory=True)
dataset = tf.data.Dataset.from_tensors(batch).repeat(2)
model.fit(dataset, verbose=0, callbacks=[monitor])
memory = monitor.summary.memory
(device,) = memory.devices
print("Trained")
print(
    json.dumps(
        {
            "predicted": predicted.peak_bytes,
            "predicted_by_monitor": memory.prediction.peak_bytes,
            "monitor_batch": memory.prediction.batch_size,
            "peak": device.needed_bytes,
            "weights": memory.weights_bytes,
            "slots": memory.slots_bytes,
            "steps": memory.steps_bytes(device),
        }
    )
)
