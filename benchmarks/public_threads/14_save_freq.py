# Source: GitHub, tensorflow/tensorflow #33163 (save_freq=1 meant "after each epoch" to the author; it is each batch) and
#   tensorflow/docs PR #2042 (save_freq=5 * batch_size in the tutorial, which counts batches).
# The user saw: checkpoints were added with save_freq=1, "after every epoch". Since then each epoch takes several times as
#   long; the disk is busy; the folder holds one file that changes all the time.
# True cause: save_freq counts batches: the model with Adam's moments (14 MB) is written after every one of 50 batches.
# First line of a good tool: ModelCheckpoint (line) takes .. % of the time: it saves 14 MB after each batch, 250 times;
#   save_freq="epoch".
# Must not say: input-bound, a slow disk as the cause, small steps / steps_per_execution, the model is too large;
#   "callbacks are slow" without the name.
# FIXED=1: save_freq="epoch". Kind: speed, checkpoints.
import os, pathlib, sys, tempfile, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
folder = pathlib.Path(tempfile.mkdtemp())

rng = np.random.default_rng(0)
x = rng.normal(size=(1_600, 300)).astype("float32")
y = np.tanh(x[:, :20]).sum(1, keepdims=True)

model = keras.Sequential([
    keras.Input((300,)),
    *[keras.layers.Dense(700, activation="relu") for _ in range(3)],
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
save = keras.callbacks.ModelCheckpoint(str(folder / "last.keras"), save_freq="epoch" if FIXED else 1)
began = time.time()
history = model.fit(x, y, batch_size=32, epochs=5, verbose=2, callbacks=[save])
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
