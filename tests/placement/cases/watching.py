"""A small model with one operation of each kind, and a callback that watches its first step."""

from __future__ import annotations

import functools

import keras
import numpy as np
import tensorflow as tf

from keras_gpukit.profiling.placement.probe import PlacementProbe


class HostBound(keras.layers.Layer):
    """Operations that no GPU can run, each for a reason of its own."""

    def call(self, x):
        python = tf.py_function(lambda t: t, [x], tf.float32)
        python.set_shape(x.shape)
        parsed = tf.strings.to_number(tf.strings.as_string(x))
        parsed.set_shape(x.shape)
        with tf.device("CPU:0"):
            asked = tf.nn.softmax(x)
        return python + parsed + asked + tf.cast(self.integers(x), tf.float32)

    @tf.function
    def integers(self, x):
        whole = tf.cast(x * 10, tf.int32)
        return tf.reduce_sum(tf.matmul(whole, whole, transpose_b=True))


class StatefulNoise(keras.layers.Layer):
    """Draws from a stateful kernel, whose stream a cleared kernel cache would restart."""

    def call(self, x):
        return x + 0.1 * tf.random.uniform(tf.shape(x))


class WatchFirstStep(keras.callbacks.Callback):
    """What the package's own callback does, at its smallest."""

    def on_train_begin(self, logs=None):
        train_function = self.model.train_function

        @functools.wraps(train_function)
        def watched(iterator):
            self.model.train_function = train_function
            probe = PlacementProbe(self.model)
            probe.start()
            try:
                return train_function(iterator)
            finally:
                self.record = probe.stop()

        self.model.train_function = watched


def make_model(*layers, **compile_arguments):
    keras.utils.set_random_seed(7)
    hidden = keras.layers.Dense(16, activation="relu", name="hidden")
    dropout = keras.layers.Dropout(0.2)
    model = keras.Sequential([keras.Input((8,)), hidden, dropout, *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse", **{"jit_compile": False, **compile_arguments})
    return model


def fit(model, callback=None, **arguments):
    random = np.random.default_rng(0)
    x, y = random.random((64, 8), np.float32), random.random((64, 1), np.float32)
    callbacks = [callback] if callback else []
    history = model.fit(
        x, y, batch_size=8, shuffle=False, verbose=0, callbacks=callbacks, **arguments
    )
    return history.history["loss"]


def watched_fit(model):
    callback = WatchFirstStep()
    fit(model, callback)
    return callback.record


def trained(watch, *layers):
    """Returns losses and weights of two fits."""
    model = make_model(*layers)
    losses = [fit(model, WatchFirstStep() if watch else None, epochs=2) for _ in range(2)]
    return losses, [weight.tobytes() for weight in model.get_weights()]
