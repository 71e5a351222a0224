# Source: GitHub, tensorflow/tensorflow #34025 "Understanding warning "5 out of the last 5 calls to <function XXX>
#   triggered tf.function retracing"", keiohta/tf2rl pull request #100 "Reduce tf.function retracing".
# The user saw: a variational autoencoder with a loop by hand; the weight of the second loss grows from 0 to 1 in the
#   first 25 steps. The first epoch takes most of the time, then the epochs fly. A warning on retracing passes by.
# True cause: kl_weight is a Python float: each new value makes tf.function trace train_step again, 26 times (0, 1/25,
#   .. 1), at a few tenths of a second each.
# First line of a good tool: train_step (line) was traced 26 times, since its argument kl_weight is a Python number that
#   changes: pass tf.constant(kl_weight); saves about .. of .. s.
# Must not say: warm-up of the first steps/epoch that can't be helped; input-bound; shapes that vary; jit_compile;
#   reduce_retracing=True as the cure (it does not help for Python numbers); nothing.
# FIXED=1: the weight is passed as a tensor. Kind: speed, own training loop, retracing.
import os, sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
LATENT, WARM_UP, EPOCHS = 8, 25, 4

rng = np.random.default_rng(0)
faces = (rng.random((1_920, 6)) @ rng.random((6, 576)) / 6).astype("float32")
ds = tf.data.Dataset.from_tensor_slices(faces).batch(64, drop_remainder=True).cache().prefetch(2)

encoder = keras.Sequential(
    [keras.Input((576,)), keras.layers.Reshape((24, 24, 1))]
    + [keras.layers.Conv2D(16, 3, strides=2, padding="same", activation="relu") for number in range(2)]
    + [keras.layers.Flatten(), keras.layers.Dense(2 * LATENT)]
)
decoder = keras.Sequential(
    [keras.Input((LATENT,)), keras.layers.Dense(6 * 6 * 16, activation="relu"), keras.layers.Reshape((6, 6, 16))]
    + [keras.layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu") for number in range(2)]
    + [keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid"), keras.layers.Reshape((576,))]
)
weights = encoder.trainable_variables + decoder.trainable_variables
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(weights)
noise = tf.random.Generator.from_seed(7)


@tf.function
def train_step(x, kl_weight):
    with tf.GradientTape() as tape:
        mean, spread = tf.split(encoder(x, training=True), 2, axis=1)
        code = mean + tf.exp(0.5 * spread) * noise.normal((64, LATENT))
        far = tf.reduce_mean(tf.reduce_sum((x - decoder(code, training=True)) ** 2, axis=1))
        kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + spread - mean**2 - tf.exp(spread), axis=1))
        loss = far + kl_weight * kl
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    return loss


losses, step = [], 0
began = time.time()
for epoch in range(EPOCHS):
    total = 0.0
    for x in ds:
        kl_weight = min(1.0, step / WARM_UP)
        total += float(train_step(x, tf.constant(kl_weight, tf.float32) if FIXED else kl_weight))
        step += 1
    losses.append(total / 30)
    print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}, {time.time() - began:.1f} s")
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", losses)
