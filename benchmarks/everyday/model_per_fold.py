"""Cross-validation of a small network: each fold builds, compiles and trains a new model.

Finding: many-short-calls
"""

import sys
import time

import keras
import numpy as np

FIX = "--fix" in sys.argv
FOLDS = 10
keras.utils.set_random_seed(7)
rng = np.random.default_rng(7)
readings = rng.normal(size=(120, 12, 4)).astype("float32")
labels = (readings[:, :, 0].sum(1) > 0).astype("float32")


def build():
    model = keras.Sequential(
        [
            keras.Input((12, 4)),
            keras.layers.Bidirectional(keras.layers.GRU(12, return_sequences=True)),
            keras.layers.GRU(12),
            keras.layers.Dense(1, "sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy")
    model.optimizer.build(model.trainable_variables)
    return model


began = time.perf_counter()
losses = []
model = build()
weights, state = model.get_weights(), [each.numpy() for each in model.optimizer.variables]
for fold in range(FOLDS):
    if FIX:
        model.set_weights(weights)
        for variable, value in zip(model.optimizer.variables, state, strict=True):
            variable.assign(value)
    else:
        model = build()
        model.set_weights(weights)
    held_out = np.arange(len(labels)) % FOLDS == fold
    model.fit(
        readings[~held_out], labels[~held_out], batch_size=18, epochs=2, shuffle=False, verbose=0
    )
    losses.append(model.evaluate(readings[held_out], labels[held_out], verbose=0))
print("FIT_S", round(time.perf_counter() - began, 2), file=sys.stderr)
print("LOSSES", [round(each, 4) for each in losses])
