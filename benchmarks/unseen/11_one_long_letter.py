# Source: GitHub, tensorflow/tensor2tensor #545 "Out Of Memory (OOM) when having long lines of text to translate." and
#   stickeritis/sticker #55 "OOM issues and Sequence Lengths" (memory is governed by the longest sequence).
# The user saw: training goes well for most of the first epoch, always with little memory, then ResourceExhaustedError at
#   the same batch. Batches half as large fail as well.
# True cause: letter 1,234 has 52,000 words, all others fewer than 150. padded_batch pads its whole batch of 16 to
#   that length and the attention "look" wants [16, 2, 52000, 52000] floats, 346 GB; even alone it wants 21.6 GB.
#   (On a machine with more memory than that, raise the number.)
# First line of a good tool: out of memory in step 78 (training), in the attention "look": a batch of length 52,000 where
#   others have 150: one example is far longer; cut or drop it (letter[:150]).
# Must not say: a smaller batch, accumulated gradients or mixed precision as the cure; a leak; the model is too large in
#   general; the optimizer; validation; any finding on speed first.
# FIXED=1: letters are cut at 150 words. Kind: failure, memory.
import os, sys, time

import keras
import numpy as np
import tensorflow as tf

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
WORDS, BATCH, LIMIT = 2_000, 16, 150

rng = np.random.default_rng(0)
letters = [rng.integers(1, WORDS, rng.integers(30, LIMIT)).astype("int32") for _ in range(1_600)]
letters[1_234] = rng.integers(1, WORDS, 52_000).astype("int32")  # somebody pasted a whole book
angry = np.array([float((letter[:30] < 200).sum() > 2) for letter in letters], "float32")


def one_by_one():
    for letter, label in zip(letters, angry):
        yield letter, label


ds = tf.data.Dataset.from_generator(
    one_by_one, output_signature=(tf.TensorSpec((None,), tf.int32), tf.TensorSpec((), tf.float32))
)
if FIXED:
    ds = ds.map(lambda letter, label: (letter[:LIMIT], label))
ds = ds.padded_batch(BATCH, padded_shapes=((None,), ())).prefetch(2)

tokens = keras.Input((None,), dtype="int32")
x = keras.layers.Embedding(WORDS, 32)(tokens)
x = x + keras.layers.MultiHeadAttention(2, 16, name="look")(x, x)
x = keras.layers.LayerNormalization()(x)
x = keras.layers.GlobalAveragePooling1D()(x)
model = keras.Model(tokens, keras.layers.Dense(1, activation="sigmoid")(x))
model.compile("adam", "binary_crossentropy")


class Told(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch % 20 == 19:
            print(f"batch {batch + 1}: loss {logs['loss']:.4f}", flush=True)


began = time.time()
history = model.fit(ds, epochs=2, verbose=2, callbacks=[Told()])
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
