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
    file.write("size,weight,price," + ",".join(f"color{n}" for n in range(6)) + ",sold\n")
    for _ in range(12_000):
        numbers = [f"{value:.4f}" for value in random.random(3)]
        colors = random.choice(COLORS, 6)
        file.write(",".join([*numbers, *colors, str(random.integers(2))]) + "\n")

dataset = tf.data.experimental.make_csv_dataset(
    path, batch_size=64, label_name="sold", num_epochs=1, shuffle=False
)
lookup = keras.layers.StringLookup(vocabulary=COLORS, output_mode="one_hot")


def encode(row, sold):
    numbers = [row[name][:, None] for name in ("size", "weight", "price")]
    return tf.concat([*numbers, *(lookup(row[f"color{n}"]) for n in range(6))], 1), sold


dataset = dataset.map(encode)
dataset = dataset.cache() if FIXED else dataset
model = keras.Sequential(
    [keras.Input((33,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
began = time.time()
history = model.fit(dataset, epochs=24, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
