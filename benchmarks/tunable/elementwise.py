"""Eighty elementwise operations, each of which reads and writes all of memory; XLA fuses them."""

import sys

import keras
import numpy as np

inputs = keras.Input((1024,))
hidden = inputs
for _ in range(20):
    hidden = keras.ops.maximum(hidden * 1.01 + 0.1, 0.5 * hidden - 0.2)
model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
by_hand = {"jit_compile": True} if "--by-hand" in sys.argv else {}
model.compile(keras.optimizers.SGD(1e-6), "mse", **by_hand)
rows = np.random.default_rng(0).normal(size=(8192, 1024)).astype("float32")
model.fit(rows, rows[:, :1], batch_size=512, epochs=3, verbose=0)
