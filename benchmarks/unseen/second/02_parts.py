"""Classify photos of machine parts into ten classes with a small CNN."""
import os
import sys
import time

import numpy as np
import keras
from keras import layers

START = time.time()

POLICY = "float32" if os.environ.get("FIXED") else "mixed_float16"
keras.config.set_dtype_policy(POLICY)
keras.utils.set_random_seed(1)

NUM_CLASSES = 10
SIZE = 32


def load_photos(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, NUM_CLASSES, n)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    images = np.empty((n, SIZE, SIZE, 3), "uint8")
    for i, c in enumerate(labels):
        wave = np.sin((c + 2) * 3 * (xx + 0.3 * yy) + rng.uniform(0, 6))
        img = 128 + 60 * wave[..., None] + rng.normal(0, 25, (SIZE, SIZE, 3))
        images[i] = np.clip(img, 0, 255)
    return images, labels


x_train, y_train = load_photos(640, 0)
x_val, y_val = load_photos(128, 1)

inputs = keras.Input((SIZE, SIZE, 3))
x = layers.Rescaling(1 / 255)(inputs)
for filters in (16, 32, 64):
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.8)(x)
    x = layers.ReLU()(x)
    x = layers.MaxPooling2D()(x)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dense(64, activation="relu")(x)
x = layers.Dropout(0.3)(x)
outputs = layers.Dense(NUM_CLASSES, activation="softmax", dtype="float32")(x)
model = keras.Model(inputs, outputs)

model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(
    x_train,
    y_train,
    validation_data=(x_val, y_val),
    batch_size=64,
    epochs=4,
    verbose=2,
)

print(f"SECONDS {time.time() - START:.1f}", file=sys.stderr)
