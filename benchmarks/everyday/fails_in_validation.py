"""A training stops with an error after its first epoch: one validation image cannot be read.

Finding: ended-by-error
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(3)
BROKEN = -1 if "--fix" in sys.argv else 17
random = np.random.default_rng(0)
x = random.normal(size=(60_000, 64)).astype("float32")
y = x.sum(-1, keepdims=True)


def read(at):
    if at == BROKEN:
        raise ValueError(f"image {at} is truncated")
    return x[at]


def examples():
    for at in range(64):
        yield read(at), y[at]


like = (tf.TensorSpec((64,)), tf.TensorSpec((1,)))
validation = tf.data.Dataset.from_generator(examples, output_signature=like).batch(64)
model = keras.Sequential([keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
began = time.time()
losses = keras.callbacks.LambdaCallback(
    on_epoch_end=lambda epoch, logs: print("LOSSES", logs["loss"])
)
try:
    model.fit(
        x, y, batch_size=64, epochs=4, validation_data=validation, verbose=0, callbacks=[losses]
    )
finally:
    print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
