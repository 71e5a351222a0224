# Source: GitHub, keras-team/keras #11727 "Strange behavior of `Sequence`" (with multiprocessing and a Sequence that holds
#   all data, five times slower than a plain generator) and #17118 (arrays in memory, workers=4 do not help).
# The user saw: "for speed" the Sequence got workers=2, use_multiprocessing=True. Now an epoch takes several times as long
#   as with the plain Sequence, the cores are busy, the network waits.
# True cause: the data are in memory and a batch is one slice; the processes must be started for each fit, and
#   each batch of 12 MB is pickled, sent through a pipe and unpickled: that costs far more than the slice.
# First line of a good tool: waiting for Windows.__getitem__ (line): its batches are cheap to make (.. ms) but cost .. ms
#   to send from the worker processes (12 MB each): use_multiprocessing=False (workers=1).
# Must not say: more workers, "the method is slow, make it faster", the GIL as the cause (they are processes), cache to
#   disk, the network is too small for the GPU as the first line.
# FIXED=1: no processes, same order. Kind: speed, processes for input.
import os, sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
BATCH = 256


class Windows(keras.utils.PyDataset):
    def __init__(self, x, y, **options):
        super().__init__(**options)
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x) // BATCH

    def __getitem__(self, number):
        rows = slice(number * BATCH, (number + 1) * BATCH)
        return self.x[rows], self.y[rows]


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    x = rng.random((7_680, 200, 60), "float32")
    y = x[:, :, 0].mean(1, keepdims=True) * 10
    options = {} if FIXED else {"workers": 2, "use_multiprocessing": True}
    windows = Windows(x, y, **options)
    model = keras.Sequential([
        keras.Input((200, 60)),
        keras.layers.AveragePooling1D(20),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1),
    ])
    model.compile("adam", "mse")
    began = time.time()
    history = model.fit(windows, epochs=6, shuffle=False, verbose=2)
    print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
    print("LOSSES", history.history["loss"])
