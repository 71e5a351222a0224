# Source: GitHub, matterport/Mask_RCNN #2415 and tensorflow/tensorflow #37876 ("on_train_batch_end is slow compared to
#   the batch update. Check your callbacks", "my training gets slower with time"); our callback is of that kind.
# The user saw: the first epoch takes two seconds, the seventh takes eight, with the same data. TensorFlow (as it was) warned
#   of slow callbacks; which, and why does it grow? A leak?
# True cause: Curve appends each batch's loss to a list and writes the whole list to a JSON file again, after each batch:
#   the cost grows with every step (1,750 entries at the end).
# First line of a good tool: Curve.on_train_batch_end (line) takes .. % of the time and grows: from .. ms to .. ms per
#   batch, since it writes everything again each time: append a line, or write once per epoch.
# Must not say: input-bound; memory leaks or tracing as the cause of the growth; small steps / steps_per_execution
#   without naming the callback; the disk.
# FIXED=1: appends one line per batch. Kind: speed, callback whose work grows.
import json, os, pathlib, sys, tempfile, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
folder = pathlib.Path(tempfile.mkdtemp())


class Curve(keras.callbacks.Callback):
    """For a page that draws the curve while training runs."""

    def __init__(self, path):
        super().__init__()
        self.path, self.points = path, []

    def on_train_batch_end(self, batch, logs=None):
        point = {"step": len(self.points), "batch": batch, "loss": float(logs["loss"]), "at": time.time()}
        self.points.append(point)
        if FIXED:
            with open(self.path, "a") as file:
                file.write(json.dumps(point) + "\n")
        else:
            with open(self.path, "w") as file:
                json.dump(self.points, file, indent=1)


rng = np.random.default_rng(0)
x = rng.normal(size=(16_000, 40)).astype("float32")
y = np.tanh(x[:, :6]).sum(1, keepdims=True)

model = keras.Sequential([
    keras.Input((40,)),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(1),
])
model.compile("adam", "mse")
began = time.time()
history = model.fit(x, y, batch_size=64, epochs=7, verbose=2, callbacks=[Curve(folder / "curve.json")])
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
