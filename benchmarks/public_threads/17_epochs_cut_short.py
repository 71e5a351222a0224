# Source: GitHub, abhi8893/tensorflow-deep-learning-mrdbourke #70 "Can't train for longer epochs with tf.data.Dataset",
#   ageron/handson-ml2 #407, keras-team/keras #19037 (steps_per_epoch and data that do not repeat).
# The user saw: 12 epochs of 150 steps each were asked for. Among the lines of the log is a warning that the input ran
#   out of data; every other epoch ends after a moment (though its line says 150/150), and the loss has odd jumps. "Is
#   training slow to converge?"
# True cause: the generator has 200 batches and does not repeat: an epoch takes 150, the next one gets the 50 that are
#   left: half of the epochs train a third of what was asked. 1,200 of 1,800 steps ran.
# First line of a good tool: fit ran 1,200 of the 1,800 steps asked for: 6 of 12 epochs ended early, since the data (line)
#   hold 200 batches and steps_per_epoch=150: repeat(), or leave steps_per_epoch out.
# Must not say: epochs start slowly, input-bound as the first line, the learning rate; nothing found as the last word;
#   that training was complete.
# FIXED=1: repeat(). FIT_S is longer (more steps). Kind: surprise, generator and steps_per_epoch.
import os, sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
BATCH, BATCHES = 32, 200

rng = np.random.default_rng(0)
x = rng.normal(size=(BATCH * BATCHES, 60, 4)).astype("float32")
y = (x[:, :30, 0].mean(1) > x[:, 30:, 1].mean(1)).astype("float32")[:, None]


def batches():
    for number in range(BATCHES):
        rows = slice(number * BATCH, (number + 1) * BATCH)
        yield x[rows], y[rows]


signature = tf.TensorSpec((BATCH, 60, 4), tf.float32), tf.TensorSpec((BATCH, 1), tf.float32)
ds = tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(4)
if FIXED:
    ds = ds.repeat()

model = keras.Sequential([
    keras.Input((60, 4)),
    keras.layers.Conv1D(32, 7, activation="relu"),
    keras.layers.Conv1D(32, 7, strides=2, activation="relu"),
    keras.layers.GlobalAveragePooling1D(),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy")
began = time.time()
history = model.fit(ds, epochs=12, steps_per_epoch=150, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
