"""A classifier of two classes trains for many epochs, and its accuracy never changes.

Finding: not-learning
"""

import sys
import time

import keras
import numpy as np

keras.utils.set_random_seed(3)
LAST = "sigmoid" if "--fix" in sys.argv else "softmax"  # of one unit: always 1
random = np.random.default_rng(0)
x = random.normal(size=(20_000, 64)).astype("float32")
y = (x[:, :8].sum(-1) > 0).astype("float32")[:, None]

model = keras.Sequential(
    [keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1, activation=LAST)]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
began = time.time()
history = model.fit(x, y, batch_size=64, epochs=12, verbose=0)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"][0], history.history["loss"][-1])
