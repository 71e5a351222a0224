# Source: GitHub, keras-team/keras #6104 "val_acc KeyError using ModelCheckpoint" and tensorflow/tensorflow #27909 (since
#   Keras 2.3 the name is val_accuracy; asked in dozens of projects until today).
# The user saw: an old training script runs through its whole first epoch, which takes long, and then ends with KeyError:
#   'Failed to format this callback filepath … val_acc'.
# True cause: the file name of ModelCheckpoint asks for {val_acc:.2f}, but the logs have accuracy, loss, val_accuracy,
#   val_loss. It shows only when the first epoch ends.
# First line of a good tool: ended after epoch 1 (.. s) by a KeyError in ModelCheckpoint (line where it is made): no
#   "val_acc" in the logs; there are accuracy, loss, val_accuracy, val_loss: write {val_accuracy:.2f}. (One epoch lost.)
# Must not say: any advice on speed as the first line (validation is slow, batches too small); a missing metrics=
#   argument; Keras' own line as the place.
# FIXED=1: {val_accuracy:.2f}. Kind: failure, in a callback.
import os, pathlib, sys, tempfile, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
folder = pathlib.Path(tempfile.mkdtemp())

rng = np.random.default_rng(0)
x = rng.random((4_000, 24, 24, 1)).astype("float32")
y = (x[:, :12].mean((1, 2, 3)) > x[:, 12:].mean((1, 2, 3))).astype("int32")

model = keras.Sequential([
    keras.Input((24, 24, 1)),
    keras.layers.Conv2D(24, 5, activation="relu"),
    keras.layers.Conv2D(24, 5, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(2, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
name = "{epoch:02d}-{val_accuracy:.2f}.keras" if FIXED else "{epoch:02d}-{val_acc:.2f}.keras"
losses = []
callbacks = [
    keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: losses.append(logs["loss"])),
    keras.callbacks.ModelCheckpoint(str(folder / name)),
]
began = time.time()
try:
    model.fit(x, y, batch_size=32, epochs=2, verbose=2, validation_split=0.2, callbacks=callbacks)
finally:
    print("LOSSES", losses)
    print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
