"""Layers that make a step take a known time."""

from __future__ import annotations

import keras
import tensorflow as tf

from planted.known_times import sleep

STEP_S = 0.03


class Sleep(keras.layers.Layer):
    """Makes a step take a known time. XLA cannot sleep."""

    def call(self, inputs):
        # TensorFlow has no operation that sleeps, but a dataset can, and a step can ask one. It
        # needs the inputs, or it would sleep while they are being fetched; and asked for a second
        # element, as it is, it would sleep once more.
        needed = tf.data.Dataset.from_tensors(0.0 * tf.reduce_sum(inputs))
        slept = needed.apply(sleep(STEP_S)).take(1)
        return inputs + slept.get_single_element()


class Sort(keras.layers.Layer):
    """Makes a step take about as long by work, on one core."""

    def build(self, input_shape):
        self.numbers = self.add_weight(shape=(130_000,), trainable=False, initializer="normal")

    def call(self, inputs):
        least = keras.ops.sort(self.numbers + tf.reduce_sum(inputs))[0]
        return inputs + tf.stop_gradient(least)
