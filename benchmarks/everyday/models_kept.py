"""A search over learning rates keeps each trained model in a list, and memory grows.

Finding: memory-grows, many-short-calls
"""

import sys
import time

import keras
import numpy as np

FIX = "--fix" in sys.argv
keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)
features = rng.normal(size=(1024, 300)).astype("float32")
labels = rng.integers(0, 3, 1024)


def build():
    model = keras.Sequential(
        [
            keras.Input((300,)),
            keras.layers.Dense(2000, "relu"),
            keras.layers.Dense(1200, "relu"),
            keras.layers.Dense(3, "softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.optimizer.build(model.trainable_variables)
    return model


began = time.perf_counter()
losses, models = [], []
model = build()
weights, state = model.get_weights(), [each.numpy() for each in model.optimizer.variables]
for rate in np.geomspace(1e-4, 1e-3, 10):
    if FIX:
        model.set_weights(weights)
        for variable, value in zip(model.optimizer.variables, state, strict=True):
            variable.assign(value)
    else:
        model = build()
        models.append(model)
    model.optimizer.learning_rate.assign(rate)
    history = model.fit(features, labels, batch_size=128, epochs=4, verbose=0)
    losses.append(history.history["loss"][-1])
print("FIT_S", round(time.perf_counter() - began, 2), file=sys.stderr)
print("LOSSES", [round(each, 3) for each in losses])
