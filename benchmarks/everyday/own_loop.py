"""A loop over a dataset with a train step of one's own is slow, and there is no fit to watch.

Finding: input-bound
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(3)
random = np.random.default_rng(0)
images = random.integers(0, 255, (512, 32, 32, 3)).astype("uint8")
labels = random.integers(0, 10, 512)


def slow_augment(image, label):
    return tf.numpy_function(jitter, [image], tf.float32), label


def jitter(image):
    total = 0.0
    for value in image.reshape(-1).tolist():  # pixel by pixel
        total += value * 1e-6
    return (image / 255.0 + total).astype("float32")


def augment(batch, labels):
    batch = tf.cast(batch, tf.float32)
    return batch / 255.0 + tf.reduce_sum(batch, (1, 2, 3), keepdims=True) * 1e-6, labels


data = tf.data.Dataset.from_tensor_slices((images, labels))
data = data.batch(32).map(augment) if "--fix" in sys.argv else data.map(slow_augment).batch(32)
data = data.prefetch(2)
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(batch, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(batch, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


began = time.time()
losses = []
for _ in range(12):
    for batch, wanted in data:
        batch = tf.ensure_shape(batch, (None, 32, 32, 3))
        loss = train_step(batch, wanted)
    losses.append(float(loss))
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", losses[0], losses[-1])
