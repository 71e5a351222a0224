"""Training in several processes, on one machine or on several.

Every process runs this script. `configure_gpus(strategy="auto")` finds the others by the variables
that the launcher sets, here `TF_CONFIG`; Slurm and Kubernetes work as well. Run without a launcher,
the same script trains alone.

    keras-gpukit launch --workers 2 examples/multi_worker.py
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import keras_gpukit as gpukit

# A seed makes all workers shuffle in the same order.
setup = gpukit.configure_gpus(strategy="auto", seed=0)

# Prepare the data, the same on each worker: each computes its share of every batch.
rng = np.random.default_rng(0)
x = rng.normal(size=(4000, 32)).astype("float32")
y = (x[:, :4].sum(axis=1) > 0).astype("float32")
dataset = (
    tf.data.Dataset.from_tensor_slices((x, y))
    .shuffle(len(x), seed=0)
    .batch(setup.global_batch_size(64), drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

# Build and compile the model within the scope, so that the workers share its variables.
with setup.scope():
    model = keras.Sequential(
        [
            keras.Input((32,)),
            layers.Dense(64, activation="relu"),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

# The same folder on all workers: the chief compares them, and names the one the others wait for.
monitor = gpukit.Monitor("logs/multi_worker")
history = model.fit(dataset, epochs=3, callbacks=[monitor])

if setup.is_chief:  # one process prints, and would save the model
    print(f"accuracy {history.history['accuracy'][-1]:.2f}")
