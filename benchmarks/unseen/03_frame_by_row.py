# Source: GitHub, braindecode/braindecode #89 "Faster dataset iteration through precomputed target/index" (iloc for each
#   example; NumPy arrays instead made the whole run 7 times faster); also fani-lab/OpeNTF #30 on DataFrame rows.
# The user saw: a table of 4,000 rows that fits in memory, a network of three small layers, and each epoch takes seconds.
# True cause: the generator batches() takes each row with table.iloc and its 43 values one by one with row[name]: pandas
#   builds a Series of objects for every row of every epoch. It is Python, one row at a time.
# First line of a good tool: input-bound by the generator batches (line): pandas row by row (table.iloc, line) takes .. ms
#   for each example; turn the table into NumPy arrays once (to_numpy) / from_tensor_slices.
# Must not say: the model, batch size; num_parallel_calls or a larger prefetch as the cure (the generator has one
#   thread); shuffle; reading files.
# FIXED=1: the same generator slices NumPy arrays made once. Kind: speed, tables, generator.
import os, sys, time

import keras
import numpy as np
import tensorflow as tf

import pandas as pd

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
ROWS, SENSORS, BATCH = 4_000, 40, 64

rng = np.random.default_rng(0)
names = [f"sensor_{number:02}" for number in range(SENSORS)]
table = pd.DataFrame(rng.normal(size=(ROWS, SENSORS)), columns=names)
table["site"] = rng.choice(["north", "south", "harbour", "ridge"], ROWS)
table["day"] = rng.integers(1, 366, ROWS)
table["output"] = table[names[:5]].sum(axis=1) + (table["site"] == "ridge") * 2.0
SITES = {"north": 0.0, "south": 1.0, "harbour": 2.0, "ridge": 3.0}
FEATURES = names + ["site", "day"]

if FIXED:
    columns = table.assign(site=table["site"].map(SITES), day=table["day"] / 365)
    matrix = columns[FEATURES].to_numpy("float32")
    outputs = columns["output"].to_numpy("float32")


def vector(row):
    return [row[name] for name in names] + [SITES[row["site"]], row["day"] / 365]


def batches():
    order = np.random.default_rng(5).permutation(ROWS)
    for start in range(0, ROWS, BATCH):
        chosen = order[start:start + BATCH]
        if FIXED:
            yield matrix[chosen], outputs[chosen]
        else:
            rows = [table.iloc[number] for number in chosen]
            yield np.array([vector(row) for row in rows], "float32"), np.array([row["output"] for row in rows], "float32")


ds = tf.data.Dataset.from_generator(
    batches,
    output_signature=(tf.TensorSpec((None, len(FEATURES)), tf.float32), tf.TensorSpec((None,), tf.float32)),
)
ds = ds.prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([
    keras.Input((len(FEATURES),)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
began = time.time()
history = model.fit(ds, epochs=12, verbose=2)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
