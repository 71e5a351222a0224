"""Tumour type from gene expression: few samples, many columns, dense network."""
import os
import sys
import tempfile
import time

import numpy as np
import keras
from keras import layers

START = time.time()
FREQ = 0 if os.environ.get("FIXED") else 1

N_GENES = 4_000
N_TYPES = 8
EPOCHS = 25

keras.utils.set_random_seed(13)

rng = np.random.default_rng(2)
profile = rng.normal(0, 1, (N_TYPES, N_GENES))
y = rng.integers(0, N_TYPES, 600)
x = (0.15 * profile[y] + rng.normal(0, 1, (600, N_GENES))).astype("float32")
x_train, y_train, x_val, y_val = x[:480], y[:480], x[480:], y[480:]

model = keras.Sequential(
    [
        keras.Input((N_GENES,)),
        layers.Dense(1500, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(1000, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(N_TYPES, activation="softmax"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)

log_dir = os.path.join(tempfile.mkdtemp(), "logs")
model.fit(
    x_train,
    y_train,
    validation_data=(x_val, y_val),
    batch_size=48,
    epochs=EPOCHS,
    callbacks=[
        keras.callbacks.TensorBoard(log_dir=log_dir, histogram_freq=FREQ),
        keras.callbacks.EarlyStopping(patience=20, restore_best_weights=True),
    ],
    verbose=2,
)

print(f"SECONDS {time.time() - START:.1f}", file=sys.stderr)
