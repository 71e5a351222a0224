"""Validation is one batch of 3,600 examples, and the loss compares all triples of a batch.

As in VisualComputingInstitute/triplet-reid#94 and keras-team/keras#14136.

Finding: out-of-memory
Names: validation; batch_all; validation_batch_size
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)
BATCH = 96

rng = np.random.default_rng(0)
x = rng.random((9_600, 20, 20, 1)).astype("float32")
y = rng.integers(0, 12, (9_600, 1))
x_val, y_val = x[:3_600], y[:3_600]


def batch_all(who, vectors):
    who = tf.reshape(who, (-1,))
    square = tf.reduce_sum(vectors**2, 1)
    distance = (
        square[:, None] - 2.0 * tf.matmul(vectors, vectors, transpose_b=True) + square[None, :]
    )
    margin = distance[:, :, None] - distance[:, None, :] + 0.3
    same = tf.equal(who[:, None], who[None, :])
    counts = tf.cast(tf.logical_and(same[:, :, None], tf.logical_not(same)[:, None, :]), tf.float32)
    return tf.reduce_sum(tf.nn.relu(margin) * counts) / (tf.reduce_sum(counts) + 1.0)


model = keras.Sequential(
    [
        keras.Input((20, 20, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(32),
        keras.layers.UnitNormalization(),
    ]
)
model.compile("adam", batch_all)
began = time.time()
history = model.fit(
    x,
    y,
    batch_size=BATCH,
    epochs=5,
    verbose=2,
    validation_data=(x_val, y_val),
    validation_batch_size=BATCH if FIXED else len(x_val),
)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
