"""Two models train in two threads; "north" fetches batches one by one from a slow store.

As in tensorflow/tensorflow#35813 and keras-team/keras#5223.

Finding: input-bound
Names: fetch|answer; wait; num_parallel_calls
"""

import concurrent.futures
import sys
import time

import keras
import numpy as np
import tensorflow as tf

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)
BATCH, BATCHES = 64, 50

rng = np.random.default_rng(0)
x = rng.normal(size=(BATCH * BATCHES, 30)).astype("float32")
y = x[:, :3].sum(1)


def answer(number):
    time.sleep(0.04)
    rows = slice(number * BATCH, (number + 1) * BATCH)
    return x[rows], y[rows]


def fetch(number):
    rows, values = tf.numpy_function(answer, [number], (tf.float32, tf.float32))
    return tf.ensure_shape(rows, (BATCH, 30)), tf.ensure_shape(values, (BATCH,))


def make(name):
    model = keras.Sequential(
        [
            keras.Input((30,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(1),
        ],
        name=name,
    )
    model.compile("adam", "mse")
    return model


many = {"num_parallel_calls": 8, "use_unbounded_threadpool": True} if FIXED else {}
data = {
    "north": tf.data.Dataset.range(BATCHES).map(fetch, **many).prefetch(1),
    "south": tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).cache().prefetch(1),
}
models = {name: make(name) for name in data}  # one after the other, which threads would not survive


def train(name):
    began = time.time()
    history = models[name].fit(data[name], epochs=12, verbose=0)
    return name, time.time() - began, history.history["loss"]


began = time.time()
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    results = sorted(pool.map(train, data))
for name, seconds, _ in results:
    print(f"{name}_S", round(seconds, 2), file=sys.stderr)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", {name: losses for name, _, losses in results})
