"""Someone loads photographs with a Grain DataLoader, which augments them one after the other.

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
photographs = [(np.full(64, i % 7, "float32"), np.float32([i % 2])) for i in range(1024)]


class Augment(grain.transforms.Map):
    def map(self, example):
        image, label = example
        if not args.fix:
            time.sleep(0.003)  # a slow library
        return image[::-1].copy(), label


loader = grain.DataLoader(
    data_source=photographs,
    sampler=grain.samplers.SequentialSampler(1024, grain.sharding.NoSharding()),
    operations=[Augment(), grain.transforms.Batch(32, drop_remainder=True)],
)
keras.utils.set_random_seed(1)
wide = [keras.layers.Dense(2048, activation="relu") for _ in range(2)]
model = keras.Sequential([keras.Input((64,)), *wide, keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(1e-4), "mse")
began_s = time.perf_counter()
history = model.fit(loader, epochs=3, verbose=0)
print(f"FIT_S {time.perf_counter() - began_s:.2f}", file=sys.stderr)
print("LOSSES", *history.history["loss"])
