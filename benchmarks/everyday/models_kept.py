"""A search over dropout rates keeps each trained model in a list, and memory grows.

Finding: memory-grows
"""

import gc
import sys
import time

import keras
import numpy as np

FIX = "--fix" in sys.argv
keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)
features = rng.normal(size=(768, 300)).astype("float32")
labels = rng.integers(0, 3, 768)

began = time.perf_counter()
trials = {}
for number in range(12):
    model = keras.Sequential(
        [
            keras.Input((300,)),
            keras.layers.Dense(1600, "relu"),
            keras.layers.Dropout(number / 20),
            keras.layers.Dense(1200, "relu"),
            keras.layers.Dense(3, "softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    history = model.fit(features, labels, batch_size=64, epochs=3, verbose=0)
    loss = history.history["loss"][-1]
    trials[number] = loss if FIX else (loss, model)
    if FIX:
        del model, history
        keras.backend.clear_session()
        gc.collect()
print("FIT_S", round(time.perf_counter() - began, 2), file=sys.stderr)
print("LOSSES", [round(each if FIX else each[0], 3) for each in trials.values()])
