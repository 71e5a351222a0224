# Source: GitHub, tensorflow/tensorflow #1757 "Running out of memory, even on small network" (with a batch of one: the
#   weights of a dense layer) and divamgupta/image-segmentation-keras #46 (OOM for shape [7,7,512,4096], one picture).
# The user saw: the classifier works for thumbnails of 48 x 48. For 128 x 128 it dies before the first step with
#   ResourceExhaustedError, and still does with batch_size=1, "though it is only three layers".
# True cause: Flatten makes 61,504 (124 x 124 x 4) numbers of each picture, so Dense(800) has 49 million weights: 197 MB,
#   and Adam keeps two more of that size. Neither batch nor pictures matter. (It fails as the weights are drawn, which
#   takes twice their size for a moment, beside the first model's 74 MB; alone, it would fail for Adam.)
# First line of a good tool: out of memory for the weights: the layer "flat" (line) after Flatten holds 61,504 x 800
#   weights, 197 MB, and Adam's two moments 394 MB more: pool before it (GlobalAveragePooling2D, strides).
# Must not say: a smaller batch, accumulated gradients, rematerialization, mixed precision (weights and moments stay
#   float32), a leak from the first model as the cause.
# FIXED=1: pooling before Flatten. Kind: failure, memory of one layer.
import os

os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="true", TF_CPU_BFC_MEM_LIMIT_IN_MB="512", TF_ENABLE_ONEDNN_OPTS="0")
import sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)


def pictures(side, number):
    x = rng.integers(0, 255, (number, side, side, 3), dtype=np.uint8)
    y = rng.integers(0, 3, number)
    for kind in range(3):
        x[y == kind, : side // 2, : side // 2, kind] //= 3
    return x, y


def make(side):
    return keras.Sequential([
        keras.Input((side, side, 3), dtype="uint8"),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(4, 5, activation="relu"),
        *([keras.layers.MaxPooling2D(8)] if FIXED else []),
        keras.layers.Flatten(),
        keras.layers.Dense(800, activation="relu", name="flat"),
        keras.layers.Dense(3, activation="softmax"),
    ])


began = time.time()
try:
    for side, number, batch in ((48, 800, 32), (128, 120, 1)):
        x, y = pictures(side, number)
        model = make(side)
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        history = model.fit(x, y, batch_size=batch, epochs=2, verbose=2)
        print("LOSSES", side, history.history["loss"], flush=True)
finally:
    print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
