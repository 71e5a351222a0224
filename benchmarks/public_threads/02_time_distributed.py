# Source: GitHub, keras-team/keras #21179 "TimeDistributed layer computational time" and #21208 (2025: far slower with
#   Keras 3 than with tf.keras, profiles show TimeDistributed).
# The user saw: after the move to Keras 3 a sensor model takes long until the first step and each step is several times
#   slower than before, though TimeDistributed(Dense) "is the same as Dense".
# True cause: the time axis is static (120), so Keras 3 calls the wrapped layer in a Python loop: 120 copies of each of
#   two layers in the graph, each with its own small operations and gradients. Dense on a 3D tensor does the same in one.
# First line of a good tool: the layers TimeDistributed (names, lines) run as 120 copies per step: .. % of the step, and
#   most of the first trace; Dense alone does the same on (batch, time, features).
# Must not say: input-bound; only "tracing takes .. s, over a longer run it matters less"; a larger batch or
#   steps_per_execution as the cure; the GRU (there is none).
# FIXED=1: the same layers without the wrapper. Kind: speed, wrapper that loops over time.
import os, sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
TIMES, SENSORS = 120, 12

rng = np.random.default_rng(0)
x = rng.normal(size=(2_048, TIMES, SENSORS)).astype("float32")
y = np.cumsum(x[:, :, :2].mean(-1, keepdims=True), axis=1) / 10


def each_time(layer):
    return layer if FIXED else keras.layers.TimeDistributed(layer)


model = keras.Sequential([
    keras.Input((TIMES, SENSORS)),
    keras.layers.Conv1D(16, 9, padding="causal", activation="relu"),
    each_time(keras.layers.Dense(32, activation="relu")),
    keras.layers.Conv1D(16, 9, padding="causal", dilation_rate=4, activation="relu"),
    each_time(keras.layers.Dense(1)),
])
model.compile("adam", "mse")
began = time.time()
history = model.fit(x, y, batch_size=64, epochs=5, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
