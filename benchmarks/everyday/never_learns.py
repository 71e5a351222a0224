"""Transfer learning in which the base was frozen after the head was added: the loss never changes.

Finding: not-learning
"""

import sys
import time

import keras
import numpy as np

keras.utils.set_random_seed(3)
random = np.random.default_rng(0)
x = random.normal(size=(20_000, 64)).astype("float32")
y = (x[:, :8].sum(-1) > 0).astype("float32")[:, None]

base = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256, activation="relu")])
model = keras.Sequential([base, keras.layers.Dense(1, activation="sigmoid")])
for layer in model.layers[:1] if "--fix" in sys.argv else model.layers:
    layer.trainable = False
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
began = time.time()
history = model.fit(x, y, batch_size=64, epochs=8, verbose=0)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"][0], history.history["loss"][-1])
