# Source: GitHub, keras-team/keras #9151 "Memory usage exponentially increases when model compiled inside a loop",
#   tensorflow/tensorflow #25073, and pythoncymetric/cymetric PR #4 "Avoid recompiling after each epoch".
# The user saw: a notebook lowers the learning rate by hand: a loop over epochs that compiles and fits one epoch each.
#   Each epoch takes seconds though there are 30 steps, and the loss jumps at each start.
# True cause: compile() in the loop makes a new train function and a new Adam each time: 8 traces of the same model, and
#   Adam's moments start from zero. The steps themselves take a tenth of the time.
# First line of a good tool: .. % of the time goes into tracing the same model again: compile (line) is called before
#   each of 8 fits; compile once and set optimizer.learning_rate (or LearningRateScheduler). Adam starts anew each time.
# Must not say: "tracing matters less in a longer run" (each epoch has it); a new model for each fold (it is one model);
#   input-bound; clear_session() as the cure.
# FIXED=1: compiled once, the learning rate is assigned. Kind: notebook, repeated compile and fit.
import os, sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)

rng = np.random.default_rng(0)
x = rng.normal(size=(1_920, 24, 8)).astype("float32")
y = (x[:, -3:, 0].sum(1) > 0).astype("float32")[:, None]

inputs = keras.Input((24, 8))
z = inputs
for width in (16, 24):
    beside = keras.layers.Conv1D(width, 3, padding="same", activation="relu")(z)
    beside = keras.layers.BatchNormalization()(beside)
    beside = keras.layers.Conv1D(width, 3, padding="same")(beside)
    z = keras.layers.Activation("relu")(keras.layers.Add()([keras.layers.Conv1D(width, 1)(z), beside]))
outputs = keras.layers.Dense(1, activation="sigmoid")(keras.layers.GlobalAveragePooling1D()(z))
model = keras.Model(inputs, outputs)

losses = []
began = time.time()
if FIXED:
    model.compile(keras.optimizers.Adam(0.002), "binary_crossentropy")
for epoch in range(8):
    rate = 0.002 * 0.9**epoch
    if FIXED:
        model.optimizer.learning_rate = rate
    else:
        model.compile(keras.optimizers.Adam(rate), "binary_crossentropy")
    history = model.fit(x, y, batch_size=64, epochs=1, verbose=2)
    losses += history.history["loss"]
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", losses)
