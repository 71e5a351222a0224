"""Someone keeps the PyTorch DataLoader of an older project, and passes it to Keras.

Finding: input-bound
"""

import argparse
import sys
import time

import keras
import numpy as np
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--fix", action="store_true")
args = parser.parse_args()


class Photographs(torch.utils.data.Dataset):
    def __len__(self):
        return 1024

    def __getitem__(self, index):
        if not args.fix:
            time.sleep(0.003)  # a slow disk
        return np.full(64, index % 7, "float32"), np.float32([index % 2])


loader = torch.utils.data.DataLoader(Photographs(), batch_size=32, drop_last=True)
keras.utils.set_random_seed(1)
wide = [keras.layers.Dense(2048, activation="relu") for _ in range(2)]
model = keras.Sequential([keras.Input((64,)), *wide, keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(1e-4), "mse")
began_s = time.perf_counter()
history = model.fit(loader, epochs=3, verbose=0)
print(f"FIT_S {time.perf_counter() - began_s:.2f}", file=sys.stderr)
print("LOSSES", *history.history["loss"])
