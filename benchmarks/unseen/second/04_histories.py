"""Predict whether a customer comes back, from the list of articles they clicked on."""
import os
import sys
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

START = time.time()
ALT = os.environ.get("FIXED")

N_USERS = 200_000
N_ARTICLES = 3_000
MAX_CLICKS = 40

keras.utils.set_random_seed(21)


def read_click_log():
    rng = np.random.default_rng(8)
    lengths = rng.integers(5, 150, N_USERS)
    clicks = rng.integers(1, N_ARTICLES, lengths.sum())
    histories = [h.tolist() for h in np.split(clicks, np.cumsum(lengths)[:-1])]
    label = (lengths + rng.normal(0, 30, N_USERS) > 75).astype("float32")
    return histories, label


histories, returned = read_click_log()

if ALT:
    clicks = tf.RaggedTensor.from_row_lengths(
        np.concatenate([np.asarray(h, "int32") for h in histories]),
        [len(h) for h in histories],
    )
else:
    clicks = tf.ragged.constant(histories, dtype=tf.int32)


def last_clicks(h, y):
    return h[:, -MAX_CLICKS:].to_tensor(0, shape=(None, MAX_CLICKS)), y


n_val = N_USERS // 10
train_ds = (
    tf.data.Dataset.from_tensor_slices((clicks[n_val:], returned[n_val:]))
    .shuffle(10_000)
    .batch(512)
    .map(last_clicks, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)
val_ds = (
    tf.data.Dataset.from_tensor_slices((clicks[:n_val], returned[:n_val]))
    .batch(512)
    .map(last_clicks, num_parallel_calls=tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.Input((MAX_CLICKS,), dtype="int32"),
        layers.Embedding(N_ARTICLES, 16),
        layers.Conv1D(16, 3, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=2, verbose=2)

print(f"SECONDS {time.time() - START:.1f}", file=sys.stderr)
