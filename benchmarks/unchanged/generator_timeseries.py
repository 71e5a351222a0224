"""Forecasting a time series with an LSTM, from a Python generator; stops when training fails."""

import sys

import keras
import numpy as np

keras.utils.set_random_seed(3)

LOOKBACK, BATCH_SIZE = 24, 32
time = np.arange(4000)
series = (np.sin(time / 24) + 0.1 * np.random.default_rng(0).normal(size=time.size)).astype("f4")


def batches(first, last, seed):
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.integers(first + LOOKBACK, last, size=BATCH_SIZE)
        inputs = np.stack([series[row - LOOKBACK : row] for row in rows])[..., None]
        yield inputs, series[rows]


model = keras.Sequential(
    [keras.Input((LOOKBACK, 1)), keras.layers.LSTM(16), keras.layers.Dense(1)], name="forecast"
)
model.compile(optimizer="rmsprop", loss="mae")
history = model.fit(
    batches(0, 3000, seed=1),
    steps_per_epoch=40,
    epochs=3,
    validation_data=next(batches(3000, 4000, seed=2)),
    callbacks=[keras.callbacks.ReduceLROnPlateau(patience=1)],
    verbose=2,
)
print(history.history)
print("warmed up", file=sys.stderr)
if history.history["val_loss"][-1] > 0.01:
    sys.exit(3)  # not good enough for what comes next
