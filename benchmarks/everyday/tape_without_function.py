"""A training loop with a gradient tape whose step is no tf.function.

As in tensorflow/tensorflow#33898.

Finding: eager-step
Names: step; eager; tf.function
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)

rng = np.random.default_rng(0)
images = rng.random((3_840, 16, 16, 1)).astype("float32")
kinds = rng.integers(0, 6, 3_840)
ds = tf.data.Dataset.from_tensor_slices((images, kinds)).batch(64).cache().prefetch(2)

layers = [keras.Input((16, 16, 1))]
for filters in (8, 8, 16, 16, 32, 32):
    layers += [
        keras.layers.Conv2D(filters, 3, padding="same"),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
    ]
    if filters == 16:
        layers.append(keras.layers.MaxPooling2D())
layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(6)]
model = keras.Sequential(layers)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


if FIXED:
    step = tf.function(step)

losses = []
began = time.time()
for epoch in range(4):
    total = 0.0
    for x, y in ds:
        total += float(step(x, y))
    losses.append(total / 60)
    print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}")
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", losses)
