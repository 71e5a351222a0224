# Source: GitHub, tensorflow/tensorflow #34920 "Unrolled LSTM terrible performance when tf.function is used"; already #511
#   "Large RNN graphs, incredibly slow graph creation and step time...".
# The user saw: nothing happens for a long time before the first batch (and again before the first validation); the four
#   epochs are then short.
# True cause: Recurrent.call goes through the 60 hours with a Python for: the graph holds 60 copies of the cell (and of
#   its gradient), and building, tracing and optimizing it takes nearly all of the time.
# First line of a good tool: .. of .. s went to building/tracing the model before the first step: Recurrent.call (line)
#   unrolls 60 time steps in Python; use keras.layers.RNN(cell) / GRU or tf.range (tf.while_loop).
# Must not say: "the first step always takes longer, a longer run makes up for it" as the last word; input-bound; the
#   data set starts slowly; a smaller batch; steps_per_execution; XLA as the cure.
# FIXED=1: keras.layers.RNN(DampedCell(..)), the same cell. FIT_S begins before the model is built. Kind: speed, model code, tracing.
import os, sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
HOURS, UNITS = 60, 24

rng = np.random.default_rng(0)
load = rng.normal(size=(1_280, HOURS, 4)).astype("float32").cumsum(1) / 10
peak = load[:, -24:, 0].max(1)


class DampedCell(keras.layers.GRUCell):
    """A GRU whose state is damped a little in each hour."""

    def call(self, inputs, states, training=False):
        _, (state,) = super().call(inputs, states, training=training)
        return 0.99 * state, [0.99 * state]


class Recurrent(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.cell = DampedCell(units)

    def call(self, inputs):
        state = tf.zeros((tf.shape(inputs)[0], UNITS))
        for hour in range(HOURS):
            _, (state,) = self.cell(inputs[:, hour], [state])
        return state


began = time.time()
model = keras.Sequential([
    keras.Input((HOURS, 4)),
    keras.layers.RNN(DampedCell(UNITS)) if FIXED else Recurrent(UNITS),
    keras.layers.Dense(16, activation="relu"),
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
history = model.fit(load, peak, batch_size=128, epochs=4, validation_split=0.2, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
