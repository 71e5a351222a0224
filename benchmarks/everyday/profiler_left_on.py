"""A profiler records the whole fit, next to the TensorBoard callback, which has its own.

As in tensorflow/tensorflow#37543 and tensorflow/tensorboard#2819.

Finding: own-profile
Names: profiler; stop
"""

import contextlib
import os
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)
logs = tempfile.mkdtemp()


@contextlib.contextmanager
def recorded(folder):
    tf.profiler.experimental.start(folder)
    try:
        yield
    finally:
        tf.profiler.experimental.stop()


rng = np.random.default_rng(0)
rows = rng.normal(size=(19_200, 50)).astype("float32")
kinds = rng.integers(0, 5, 19_200)
model = keras.Sequential(
    [keras.Input((50,))]
    + [keras.layers.Dense(48, activation="relu") for _ in range(12)]
    + [keras.layers.Dense(5, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy")
board = keras.callbacks.TensorBoard(os.path.join(logs, "board"), profile_batch=(20, 30))
began = time.time()
with contextlib.nullcontext() if FIXED else recorded(os.path.join(logs, "all")):
    history = model.fit(rows, kinds, batch_size=64, epochs=5, verbose=2, callbacks=[board])
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
