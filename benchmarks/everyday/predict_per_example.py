"""A trained classifier scores incoming records one by one, each with a call of predict.

Finding: many-short-calls
"""

import sys
import time

import keras
import numpy as np

FIX = "--fix" in sys.argv
keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
records = rng.normal(size=(160, 20)).astype("float32")
labels = (records[:, 0] > 0).astype("float32")
model = keras.Sequential(
    [keras.Input((20,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(1, "sigmoid")]
)
model.compile("adam", "binary_crossentropy")

began = time.perf_counter()
history = model.fit(records, labels, epochs=3, verbose=0)
if FIX:
    scores = [float(score[0]) for score in model.predict(records, verbose=0)]
else:
    scores = [float(model.predict(each[None], verbose=0)[0, 0]) for each in records]
print("FIT_S", round(time.perf_counter() - began, 2), file=sys.stderr)
print("LOSSES", [round(each, 4) for each in history.history["loss"]], round(sum(scores), 3))
