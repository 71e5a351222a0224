"""Transfer learning: our old plant backbone, a new head for five leaf diseases."""
import os
import sys
import time

import numpy as np
import keras
from keras import layers

START = time.time()
ALT = os.environ.get("FIXED")

SIZE = 96
NUM_CLASSES = 5
EPOCHS = 12

keras.utils.set_random_seed(4)


def load_leaves(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, NUM_CLASSES, n)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    images = np.empty((n, SIZE, SIZE, 3), "float32")
    for i, c in enumerate(labels):
        spots = np.sin((4 + 5 * c) * xx + rng.uniform(0, 6)) * np.cos((4 + 5 * c) * yy)
        green = np.stack([0.2 + 0.2 * spots, 0.6 + 0.1 * spots, 0.2 - 0.1 * spots], -1)
        images[i] = 255 * np.clip(green + rng.normal(0, 0.05, green.shape), 0, 1)
    return images / 127.5 - 1, labels


x_train, y_train = load_leaves(480, 0)
x_val, y_val = load_leaves(120, 1)


def load_backbone():
    # the weights file lives on the lab server, random ones do for trying things out
    backbone = keras.Sequential([keras.Input((SIZE, SIZE, 3))], name="backbone")
    for filters in (32, 64, 96, 128):
        for _ in range(2):
            backbone.add(
                layers.Conv2D(
                    filters,
                    3,
                    padding="same",
                    activation="relu",
                    kernel_initializer="he_normal",
                )
            )
        backbone.add(layers.MaxPooling2D())
    backbone.add(layers.GlobalAveragePooling2D())
    return backbone


base = load_backbone()
base.trainable = False

if ALT:
    x_train, x_val = base.predict(x_train, verbose=0), base.predict(x_val, verbose=0)
    inputs = keras.Input(base.output_shape[1:])
    x = inputs
else:
    inputs = keras.Input((SIZE, SIZE, 3))
    x = base(inputs, training=False)
x = layers.Dropout(0.2)(x)
x = layers.Dense(128, activation="relu")(x)
outputs = layers.Dense(NUM_CLASSES, activation="softmax")(x)
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
    batch_size=32,
    epochs=EPOCHS,
    callbacks=[keras.callbacks.ReduceLROnPlateau(patience=3)],
    verbose=2,
)

print(f"SECONDS {time.time() - START:.1f}", file=sys.stderr)
