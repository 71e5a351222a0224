"""A network predicts rates with a loss of its own, and the loss is NaN after some steps.

Finding: loss-not-finite
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(3)
EPSILON = 1e-6 if "--fix" in sys.argv else 0.0
random = np.random.default_rng(0)
x = random.normal(size=(16_000, 64)).astype("float32")
counts = random.poisson(np.exp(x[:, 0])).astype("float32")[:, None]


def poisson(counts, rates):
    return tf.reduce_mean(rates - counts * tf.math.log(rates + EPSILON))


model = keras.Sequential(
    [
        keras.layers.Dense(1024, activation="relu"),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(1, activation="relu"),  # may be 0, whose logarithm is infinite
    ]
)
model.compile("adam", poisson)
began = time.time()
history = model.fit(x, counts, batch_size=128, epochs=8, verbose=0)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"][0], history.history["loss"][-1])
