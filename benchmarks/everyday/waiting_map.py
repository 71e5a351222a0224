"""Each example is fetched from a service that answers after 8 ms, one after the other.

Finding: input-bound
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)


def answer(number):
    time.sleep(0.008)  # in place of the service
    return np.full(256, number % 7 / 7, "float32")


def fetch(number):
    features = tf.ensure_shape(tf.numpy_function(answer, [number], tf.float32), [256])
    return features, tf.cast(number % 7, tf.float32) / 7


options = {"num_parallel_calls": 16, "use_unbounded_threadpool": True} if FIXED else {}
dataset = tf.data.Dataset.range(480).map(fetch, **options).batch(16).prefetch(2)
layers = [keras.layers.Dense(1000, "relu") for _ in range(3)]
model = keras.Sequential([keras.Input((256,)), *layers, keras.layers.Dense(1)])
model.compile("adam", "mse")
began = time.time()
history = model.fit(dataset, epochs=2, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
