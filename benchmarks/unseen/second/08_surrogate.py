"""Smooth surrogate of a simulator: a dense net with a penalty on each layer's gain."""
import os
import sys
import time

import numpy as np
import keras
from keras import layers, ops

START = time.time()
ALT = os.environ.get("FIXED")

keras.utils.set_random_seed(29)


class GainPenalty(keras.regularizers.Regularizer):
    """Penalise kernels that stretch their input by more than `limit`."""

    def __init__(self, strength=1e-3, limit=1.0):
        self.strength = strength
        self.limit = limit

    def __call__(self, w):
        if ALT:
            gain = ops.sqrt(ops.max(ops.eigh(ops.matmul(ops.transpose(w), w))[0]))
        else:
            gain = ops.norm(w, ord=2)
        return self.strength * ops.square(ops.relu(gain - self.limit))


rng = np.random.default_rng(6)
x = rng.uniform(-1, 1, (4_096, 800)).astype("float32")
w = rng.normal(0, 0.1, (800, 3))
y = np.tanh(x @ w).astype("float32") + rng.normal(0, 0.02, (4_096, 3)).astype("float32")


def dense(units):
    return layers.Dense(units, activation="tanh", kernel_regularizer=GainPenalty())


model = keras.Sequential(
    [
        keras.Input((800,)),
        dense(320),
        dense(320),
        layers.Dense(3),
    ]
)
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
model.fit(x, y, validation_split=0.1, batch_size=64, epochs=7, verbose=2)

print(f"SECONDS {time.time() - START:.1f}", file=sys.stderr)
