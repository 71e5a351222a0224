"""Storm surge at a tide gauge, six hours ahead, from ten-minute readings."""
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import keras
from keras import layers

START = time.perf_counter()
SEED = 8
READINGS = 9000
HISTORY = 108
AHEAD = 36
STRIDE = 6
BATCH = 64
EPOCHS = 2

keras.utils.set_random_seed(SEED)


def make_gauge():
    rng = np.random.default_rng(SEED)
    t = np.arange(READINGS) / 6.0
    wind = np.zeros(READINGS)
    for i in range(1, READINGS):
        wind[i] = 0.985 * wind[i - 1] + rng.normal(0, 0.3)
    pressure = -np.convolve(wind, np.ones(30) / 30, mode="same") + rng.normal(0, 0.1, READINGS)
    tide = 1.6 * np.sin(2 * np.pi * t / 12.42) + 0.5 * np.sin(2 * np.pi * t / 12.0)
    surge = 0.4 * np.roll(wind, 18) - 0.2 * pressure + rng.normal(0, 0.03, READINGS)
    table = np.stack([tide + surge, wind, pressure], axis=1)
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    return table.astype("float32"), surge.astype("float32")


def cut_windows(table, surge):
    starts = np.arange(0, READINGS - HISTORY - AHEAD, STRIDE)
    x = np.stack([table[s : s + HISTORY] for s in starts])
    y = surge[starts + HISTORY + AHEAD - 1][:, None]
    return x, y


def build_model():
    unroll = os.environ.get("FIXED") != "1"
    inputs = keras.Input((HISTORY, 3))
    x = layers.LSTM(32, return_sequences=True, unroll=unroll)(inputs)
    x = layers.LSTM(32, unroll=unroll)(x)
    x = layers.Dense(16, activation="relu")(x)
    model = keras.Model(inputs, layers.Dense(1)(x))
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3, clipnorm=1.0), loss="mse", metrics=["mae"]
    )
    return model


table, surge = make_gauge()
x, y = cut_windows(table, surge)
cut = int(0.8 * len(x))
model = build_model()
history = model.fit(
    x[:cut],
    y[:cut],
    validation_data=(x[cut:], y[cut:]),
    batch_size=BATCH,
    epochs=EPOCHS,
    callbacks=[keras.callbacks.ReduceLROnPlateau(patience=1)],
    verbose=2,
)
forecast = model.predict(x[cut:], batch_size=256, verbose=0)
error = np.abs(forecast - y[cut:])
print("windows", len(x), "- mae", round(float(error.mean()), 4))
print("95 % of errors below", round(float(np.quantile(error, 0.95)), 4))

print(f"{time.perf_counter() - START:.1f} s after imports", file=sys.stderr)
