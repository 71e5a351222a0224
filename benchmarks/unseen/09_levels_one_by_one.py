# Source: GitHub, ck37/coral-ordinal pull request #14 "Vectorize ops (remove map_fn() calls) for up to 1000x speedup in
#   loss/metric/softmax calculations"; tensorflow/tensorflow #24774 "why is tensorflow.map_fn slow".
# The user saw: since the loss for ordered grades replaced the usual one, a step of this small network takes many times
#   as long; neither the data (in memory, cached) nor the layers changed.
# True cause: ordinal_loss turns each grade of the batch into levels with tf.map_fn: a loop of 256 rounds of tiny
#   operations in each step, instead of one vectorized operation.
# First line of a good tool: .. % of each step passes in the loss ordinal_loss (line): tf.map_fn goes through the batch
#   one by one; vectorize it (tf.sequence_mask, broadcasting, or tf.vectorized_map).
# Must not say: input-bound; a Dense layer or the optimizer; Python in the step/numpy_function; larger batches (they make
#   the loop longer); small steps/steps_per_execution; nothing found.
# FIXED=1: tf.sequence_mask. Kind: speed, model code (loss).
import os, sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
GRADES = 8

rng = np.random.default_rng(0)
answers = rng.normal(size=(16_384, 48)).astype("float32")
grades = np.clip((answers[:, :6].sum(1) * 1.2 + 4).round(), 0, GRADES - 1).astype("int32")


def levels_of(grade):
    """Grade 3 of 8 becomes 1 1 1 0 0 0 0."""
    passed = tf.ones((tf.cast(grade, tf.int32),))
    return tf.concat([passed, tf.zeros((GRADES - 1 - tf.size(passed),))], 0)


def ordinal_loss(truth, logits):
    truth = tf.reshape(truth, (-1,))
    if FIXED:
        levels = tf.sequence_mask(tf.cast(truth, tf.int32), GRADES - 1, tf.float32)
    else:
        levels = tf.map_fn(levels_of, truth, fn_output_signature=tf.TensorSpec((None,), tf.float32))
        levels = tf.ensure_shape(levels, (None, GRADES - 1))
    each = tf.nn.sigmoid_cross_entropy_with_logits(levels, logits)
    return tf.reduce_sum(each, axis=1)


model = keras.Sequential([
    keras.Input((48,)),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(GRADES - 1),
])
model.compile("adam", ordinal_loss)
ds = tf.data.Dataset.from_tensor_slices((answers, grades)).batch(256).cache().prefetch(2)
began = time.time()
history = model.fit(ds, epochs=20, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
