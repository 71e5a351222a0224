"""`run_eagerly=True` was left on after a bug in `train_step` was found.

Finding: slow-settings
"""

import sys
import time

import keras
import numpy as np

keras.utils.set_random_seed(4)
random = np.random.default_rng(4)
rows = random.normal(size=(24_000, 32)).astype("float32")
prices = rows[:, :4].sum(axis=1, keepdims=True)

hidden = [keras.layers.Dense(48, "tanh") for _ in range(5)]
model = keras.Sequential([keras.Input((32,)), *hidden, keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly="--fix" not in sys.argv)

began_s = time.perf_counter()
history = model.fit(rows[:9600], prices[:9600], batch_size=64, epochs=6, verbose=2)
print("FIT_S", round(time.perf_counter() - began_s, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
