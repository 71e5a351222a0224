"""Training on two GPUs, or on two halves of what there is.

`configure_gpus(strategy="auto")` trains on all GPUs of the machine in step. To try that without two
GPUs, this script splits the only one into two logical GPUs, or the CPU into two logical CPUs. Both
halves share the same hardware, so this shows that a script works, not how fast it will be.

    python examples/two_gpus.py
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import keras_gpukit as gpukit

# Set up the devices, before anything else uses TensorFlow.
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    setup = gpukit.configure_gpus(strategy="auto", logical_gpus=2 if len(gpus) == 1 else None)
else:
    (cpu,) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, halves)
    setup = gpukit.configure_gpus(devices="none", strategy="mirrored")

# Prepare the data. Each batch is shared by the replicas: with two, 128 examples are 64 for each.
rng = np.random.default_rng(0)
x = rng.normal(size=(8000, 32)).astype("float32")
y = (x[:, :4].sum(axis=1) > 0).astype("float32")
batch_size = setup.global_batch_size(64)
dataset = (
    tf.data.Dataset.from_tensor_slices((x, y))
    .shuffle(len(x))
    .batch(batch_size, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

# Build and compile the model within the scope, so that each replica gets a copy of its variables.
with setup.scope():
    model = keras.Sequential(
        [
            keras.Input((32,)),
            layers.Dense(64, activation="relu"),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(
        keras.optimizers.SGD(setup.scaled_learning_rate(0.05), momentum=0.9),
        "binary_crossentropy",
        metrics=["accuracy"],
        jit_compile=setup.jit_compile,
    )

print(f"{setup.replicas} replicas, {batch_size} examples per step")
model.fit(dataset, epochs=2, callbacks=[gpukit.Monitor("logs/two_gpus")])
