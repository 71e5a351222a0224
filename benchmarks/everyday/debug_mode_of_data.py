"""The debug mode of tf.data is still on from a session with the debugger.

Finding: slow-settings, input-bound
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

if "--fix" not in sys.argv:
    tf.data.experimental.enable_debug_mode()

keras.utils.set_random_seed(5)
random = np.random.default_rng(5)
signals = random.normal(size=(6000, 256)).astype("float32")
labels = random.integers(0, 4, 6000)


def spectrum(signal, label):
    """Turns a signal into its normalized spectrum."""
    power = tf.math.log1p(tf.abs(tf.signal.rfft(signal - tf.reduce_mean(signal))))
    return power / (1e-6 + tf.math.reduce_std(power)), label


data = tf.data.Dataset.from_tensor_slices((signals, labels))
data = data.map(spectrum, num_parallel_calls=tf.data.AUTOTUNE).batch(50).prefetch(2)
model = keras.Sequential(
    [
        keras.Input((129,)),
        *(keras.layers.Dense(1024, "relu") for _ in range(2)),
        keras.layers.Dense(4, "softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")

began_s = time.perf_counter()
history = model.fit(data, epochs=2, verbose=2)
print("FIT_S", round(time.perf_counter() - began_s, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
