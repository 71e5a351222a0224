"""A map that is slow and runs for one example at a time."""

import sys

import keras
import tensorflow as tf


def load(seed):
    image = tf.random.stateless_uniform((96, 96, 3), (seed, seed), maxval=255, dtype=tf.int32)
    image = tf.io.decode_png(tf.io.encode_png(tf.cast(image, tf.uint8)))
    return tf.image.resize(image, (16, 16)) / 255.0, tf.cast(seed % 10, tf.int32)


model = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Flatten(), keras.layers.Dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("sgd", loss)
seeds = tf.data.Dataset.range(2048, output_type=tf.int32)
if "--by-hand" in sys.argv:
    data = seeds.map(load, num_parallel_calls=tf.data.AUTOTUNE).cache()
    data = data.batch(32).prefetch(tf.data.AUTOTUNE)
else:
    data = seeds.map(load).batch(32)
model.fit(data, epochs=3, verbose=0)
