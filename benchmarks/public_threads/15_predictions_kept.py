# Source: GitHub, tensorflow/tensorflow #34606 "Memory leak when append predictions to list" (preds.append(pred) fills
#   the GPU, preds.append(np.array(pred)) does not).
# The user saw: an own training loop with tf.function dies after some hundred steps with ResourceExhaustedError; a
#   smaller batch only dies later in the epoch. "TensorFlow leaks memory in my loop."
# True cause: to draw them later, the loop keeps each step's reconstructions in a list, as tensors on the device: 4 MB a
#   step, until 512 MiB are full. The step itself needs a fraction of that, and always the same.
# First line of a good tool: out of memory in step .. : memory grew by 4 MB per step since the start, since kept.append
#   (line) holds the step's results on the device: append(result.numpy()), or keep a few.
# Must not say: a smaller batch as the way out; mixed precision, rematerialization; a leak in TensorFlow; the layer that
#   asked last as the culprit.
# FIXED=1: the list gets NumPy arrays (the host's memory). Kind: failure, own loop, memory grows.
import os

os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="true", TF_CPU_BFC_MEM_LIMIT_IN_MB="512", TF_ENABLE_ONEDNN_OPTS="0")
import sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)

rng = np.random.default_rng(0)
x = rng.random((640, 64, 64, 4)).astype("float16")
data = tf.data.Dataset.from_tensor_slices(x).shuffle(len(x), seed=2).batch(64).prefetch(1)

model = keras.Sequential([
    keras.Input((64, 64, 4)),
    keras.layers.Conv2D(8, 5, strides=2, padding="same", activation="relu"),
    keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
    keras.layers.Conv2DTranspose(4, 5, strides=2, padding="same"),
])
optimizer = keras.optimizers.Adam(0.002)
optimizer.build(model.trainable_variables)


@tf.function
def step(batch):
    batch = tf.cast(batch, tf.float32)
    with tf.GradientTape() as tape:
        result = model(batch, training=True)
        loss = tf.reduce_mean((result - batch) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss, result


losses, kept = [], []
began = time.time()
try:
    for epoch in range(16):
        total = 0.0
        for batch in data:
            loss, result = step(batch)
            total += float(loss)
            kept.append(result.numpy() if FIXED else result)
        losses.append(total / len(data))
        print("epoch", epoch, "loss", round(losses[-1], 4), flush=True)
finally:
    print("LOSSES", losses)
    print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
