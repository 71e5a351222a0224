# Source: GitHub, tensorflow/tensorflow #36626 "Dataset.shuffle leads to worse training performance due to chunked
#   processing" and IBM/graph2tac PR #95 (a buffer of a fiftieth of the data: the network forgets the start of an epoch).
# The user saw: training accuracy is about 90 % in each epoch, validation between 16 % (one class in six) and 49 %, and the loss
#   jumps up at the start of each epoch. "It overfits"; dropout and a smaller network do not help.
# True cause: the files are sorted by class, and shuffle(64) sees 64 of 18,000 rows: each batch has one class. At
#   the end of an epoch the network says the last class for everything.
# First line of a good tool: batches hold one class at a time: the labels come sorted and shuffle(64) (line) mixes 0.4 %
#   of 18,000 rows: shuffle the rows (or files) before, or shuffle(18_000).
# Must not say: overfitting, a learning rate, "nothing was found" as the last word; a smaller shuffle buffer (it would be
#   worse); any finding on speed first.
# FIXED=1: shuffle(18_000). The speed hardly changes; LOSSES and VALID do. Kind: surprise, shuffle buffer.
import os, sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
KINDS, ROWS, BUFFER = 6, 18_000, 18_000 if FIXED else 64

rng = np.random.default_rng(0)
centers = rng.normal(size=(KINDS, 40))


def table(rows, ordered):
    y = rng.integers(0, KINDS, rows)
    y = np.sort(y) if ordered else y
    return (0.5 * centers[y] + rng.normal(size=(rows, 40))).astype("float32"), y


x, y = table(ROWS, True)
x_val, y_val = table(1_500, False)
train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(BUFFER, seed=2).batch(32).prefetch(tf.data.AUTOTUNE)
valid = tf.data.Dataset.from_tensor_slices((x_val, y_val)).batch(500)

model = keras.Sequential([
    keras.Input((40,)),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(KINDS, activation="softmax"),
])
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
began = time.time()
history = model.fit(train, validation_data=valid, epochs=8, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
print("VALID", history.history["val_accuracy"])
