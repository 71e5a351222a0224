"""A table in one CSV file with text columns is parsed and looked up again in each epoch.

Finding: input-bound
"""

import os
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)
random = np.random.default_rng(0)
COLORS = ["red", "green", "blue", "grey"]

path = os.path.join(tempfile.mkdtemp(), "sales.csv")
with open(path, "w") as file:
    file.write("size,weight,price," + ",".join(f"color{n}" for n in range(16)) + ",sold\n")
    for _ in range(12_000):
        numbers = [f"{value:.4f}" for value in random.random(3)]
        colors = random.choice(COLORS, 16)
        file.write(",".join([*numbers, *colors, str(random.integers(2))]) + "\n")

dataset = tf.data.experimental.make_csv_dataset(
    path, batch_size=300, label_name="sold", num_epochs=1, shuffle=False
)
lookup = keras.layers.StringLookup(vocabulary=COLORS, output_mode="one_hot")


def encode(row, sold):
    columns = [row[name][:, None] for name in ("size", "weight", "price")]
    columns += [tf.cast(lookup(row[f"color{n}"]), tf.float32) for n in range(16)]
    return tf.concat(columns, axis=1), sold


dataset = dataset.map(encode)
dataset = dataset.cache() if FIXED else dataset
model = keras.Sequential(
    [keras.Input((83,)), keras.layers.Dense(128, "relu"), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
began = time.time()
history = model.fit(dataset, epochs=36, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
