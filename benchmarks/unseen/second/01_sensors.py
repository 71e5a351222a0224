"""Forecast the next value of a pump's vibration sensor from the last two hours."""
import os
import sys
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

START = time.time()
ALT = os.environ.get("FIXED")

WINDOW = 120
BATCH = 64
EPOCHS = 8

keras.utils.set_random_seed(7)


def load_measurements(n=26_000):
    rng = np.random.default_rng(3)
    t = np.arange(n)
    base = np.stack([np.sin(2 * np.pi * t / p) for p in (50, 144, 310, 720)], axis=1)
    drift = np.cumsum(rng.normal(0, 0.01, size=(n, 4)), axis=0)
    return np.concatenate([base, drift], axis=1).astype("float32") + rng.normal(
        0, 0.05, size=(n, 8)
    ).astype("float32")


def windowed_dataset(series, training):
    if ALT:
        parts = np.lib.stride_tricks.sliding_window_view(series, WINDOW + 1, axis=0)
        ds = tf.data.Dataset.from_tensor_slices(parts.transpose(0, 2, 1))
    else:
        ds = tf.data.Dataset.from_tensor_slices(series)
        ds = ds.window(WINDOW + 1, shift=1, drop_remainder=True)
        ds = ds.flat_map(lambda w: w.batch(WINDOW + 1))
    ds = ds.map(lambda w: (w[:-1], w[-1, 0]), num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(2000)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


values = load_measurements()
split = int(len(values) * 0.85)
mean, std = values[:split].mean(axis=0), values[:split].std(axis=0)
values = (values - mean) / std

train_ds = windowed_dataset(values[:split], True)
val_ds = windowed_dataset(values[split:], False)

model = keras.Sequential(
    [
        keras.Input((WINDOW, 8)),
        layers.Conv1D(32, 5, strides=2, activation="relu"),
        layers.Conv1D(32, 5, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(1),
    ]
)
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
model.fit(train_ds, validation_data=val_ds, epochs=EPOCHS, verbose=2)

print(f"SECONDS {time.time() - START:.1f}", file=sys.stderr)
