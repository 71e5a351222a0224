"""TensorBoard is asked for histograms of all weights after each epoch.

Finding: slow-callbacks
"""

import sys
import tempfile
import time

import keras
import numpy as np

keras.utils.set_random_seed(6)
random = np.random.default_rng(6)
x = random.normal(size=(3000, 100)).astype("float32")
y = random.integers(0, 5, 3000)

model = keras.Sequential(
    [
        keras.Input((100,)),
        keras.layers.Dense(1500, "relu"),
        keras.layers.Dense(1500, "relu"),
        keras.layers.Dense(5, "softmax"),
    ]
)
model.compile("sgd", "sparse_categorical_crossentropy")
with tempfile.TemporaryDirectory() as folder:
    every = 0 if "--fix" in sys.argv else 1
    board = keras.callbacks.TensorBoard(folder, histogram_freq=every)
    began_s = time.perf_counter()
    history = model.fit(x, y, batch_size=64, epochs=14, callbacks=[board], verbose=2)
    print("FIT_S", round(time.perf_counter() - began_s, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
