"""Someone keeps a moving average of the weights by a callback, whose decay is a Python number.

Finding: retracing
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

FIX = "--fix" in sys.argv


@tf.function
def follow(averages, weights, decay):
    for place, average in enumerate(averages):
        average.assign(decay * average + (1 - decay) * weights[place])


class MovingAverage(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.weights = [each.value for each in self.model.trainable_variables]
        self.averages = [tf.Variable(each) for each in self.weights]
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        decay = min(0.9999, self.steps / (10 + self.steps))
        follow(self.averages, self.weights, tf.constant(decay, tf.float32) if FIX else decay)


keras.utils.set_random_seed(1)
hidden = [keras.layers.Dense(256, activation="relu") for _ in range(6)]
model = keras.Sequential([keras.Input((256,)), *hidden, keras.layers.Dense(1)])
model.compile("adam", "mse")
rng = np.random.default_rng(0)
x, y = rng.normal(size=(4800, 256)).astype("float32"), rng.normal(size=4800).astype("float32")
began_s = time.time()
history = model.fit(x, y, batch_size=128, epochs=2, verbose=2, callbacks=[MovingAverage()])
print("FIT_S", round(time.time() - began_s, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
