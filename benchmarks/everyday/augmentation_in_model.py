"""Augmentation layers are the first layers of a small image classifier.

Finding: preprocessing-in-model
"""

import sys
import time

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(7)
random = np.random.default_rng(7)
photographs = random.integers(0, 255, (960, 96, 96, 3)).astype("uint8")
labels = random.integers(0, 2, 960)

augment = keras.Sequential(
    [
        layers.RandomRotation(0.15, fill_mode="reflect"),
        layers.RandomZoom(0.3),
        layers.RandomTranslation(0.2, 0.2),
        layers.RandomBrightness(0.2),
    ],
    name="augment",
)
inputs = keras.Input((96, 96, 3))
hidden = layers.Rescaling(1 / 255.0)(inputs)
if "--fix" not in sys.argv:
    hidden = augment(hidden)
hidden = layers.Conv2D(8, 5, 4, activation="relu")(hidden)
hidden = layers.Flatten()(hidden)
model = keras.Model(inputs, layers.Dense(1, "sigmoid")(hidden))
model.compile("adam", "binary_crossentropy")

began_s = time.perf_counter()
history = model.fit(photographs, labels, batch_size=32, epochs=14, verbose=2)
print("FIT_S", round(time.perf_counter() - began_s, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
