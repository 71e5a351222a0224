"""TextVectorization.adapt gets a dataset that is not batched, and learns text by text.

As in keras-team/keras#16312.

Finding: outside-calls
Names: adapt; before; batch
"""

import random
import sys
import time

import keras
import numpy as np
import tensorflow as tf

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)

dice = random.Random(0)
stock = ["".join(dice.choices("abcdefghij", k=dice.randint(3, 8))) for _ in range(3_000)]
texts = [" ".join(dice.choices(stock, k=60)) for _ in range(8_000)]
is_long = np.array([float(len(text) > 392) for text in texts], "float32")

vectorize = keras.layers.TextVectorization(max_tokens=2_000, output_sequence_length=60)
only_texts = tf.data.Dataset.from_tensor_slices(texts)

began = time.time()
vectorize.adapt(only_texts.batch(256) if FIXED else only_texts)
print("ADAPT_S", round(time.time() - began, 2), file=sys.stderr)

ds = tf.data.Dataset.from_tensor_slices((texts, is_long)).batch(64)
ds = ds.map(lambda text, label: (vectorize(text), label), num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.cache().prefetch(2)
model = keras.Sequential(
    [
        keras.Input((60,), dtype="int64"),
        keras.layers.Embedding(2_000, 32),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy")
history = model.fit(ds, epochs=12, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
