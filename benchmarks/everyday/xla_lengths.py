"""Someone trains on recordings of many lengths, padded per batch, and turned XLA on for speed.

Finding: retracing
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

FIX = "--fix" in sys.argv
LONGEST, BATCH = 160, 8
rng = np.random.default_rng(0)
recordings = [rng.normal(size=(n, 6)).astype("float32") for n in rng.integers(20, LONGEST + 1, 160)]


def examples():
    for recording in recordings:
        yield recording, recording.mean(keepdims=False)


signature = (tf.TensorSpec((None, 6)), tf.TensorSpec(()))
dataset = tf.data.Dataset.from_generator(examples, output_signature=signature).cache()
shapes = ((LONGEST if FIX else None, 6), ())
dataset = dataset.padded_batch(BATCH, padded_shapes=shapes).prefetch(2)
keras.utils.set_random_seed(1)
layers = [keras.layers.Conv1D(24, 5, activation="relu") for _ in range(2)]
model = keras.Sequential(
    [keras.Input((None, 6)), *layers, keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(1)]
)
model.compile("adam", "mse", jit_compile=True)
began_s = time.time()
history = model.fit(dataset, epochs=4, verbose=2)
print("FIT_S", round(time.time() - began_s, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
