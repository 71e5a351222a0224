"""Someone reads documents with a Grain MapDataset, and tokenizes them after its threads.

Finding: input-bound
"""

import argparse
import sys
import time

import grain
import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--fix", action="store_true")
args = parser.parse_args()


def tokenize(document):
    time.sleep(0.003)  # a service
    return np.full(64, document % 7, "float32"), np.float32([document % 2])


documents = grain.MapDataset.range(1024).shuffle(seed=1)
if args.fix:
    documents = documents.map(tokenize).to_iter_dataset()
else:
    documents = documents.to_iter_dataset().map(tokenize)
keras.utils.set_random_seed(1)
wide = [keras.layers.Dense(2048, activation="relu") for _ in range(2)]
model = keras.Sequential([keras.Input((64,)), *wide, keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(1e-4), "mse")
began_s = time.perf_counter()
history = model.fit(documents.batch(32, drop_remainder=True), epochs=3, verbose=0)
print(f"FIT_S {time.perf_counter() - began_s:.2f}", file=sys.stderr)
print("LOSSES", *history.history["loss"])
