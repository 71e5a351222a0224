# Source: GitHub, keras-team/keras #13510 "keep ModelCheckpoint period to better align checkpoints with epochs" and
#   tensorflow/tensorflow #44864 (`period` gave way to `save_freq`, which counts batches).
# The user saw: after period=5 was replaced by save_freq=5 ("every five epochs, as before") training takes several times
#   as long; nothing else was changed.
# True cause: an integer save_freq counts batches, not epochs: with 50 batches in an epoch the whole model (25 layers
#   and Adam's slots) is written 100 times instead of twice.
# First line of a good tool: ModelCheckpoint (line) saves every 5 batches, 100 times in this run, and that takes .. of
#   .. s: save_freq="epoch" or 5 * 50; save_freq counts batches.
# Must not say: input-bound; the step or a layer is slow; CSVLogger; callbacks in general without naming ModelCheckpoint;
#   a faster disk only.
# FIXED=1: save_freq=5 * steps. Kind: speed, callbacks, checkpoints.
import os, sys, tempfile, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
BATCH, EPOCHS = 64, 10
models = tempfile.mkdtemp()

rng = np.random.default_rng(0)
spectra = rng.normal(size=(3_200, 400)).astype("float32")
material = (spectra[:, :8] @ rng.normal(size=(8, 5))).argmax(1)
steps = len(spectra) // BATCH

layers = [keras.Input((400,))]
for _ in range(6):
    layers += [keras.layers.Dense(40), keras.layers.BatchNormalization(), keras.layers.ReLU(), keras.layers.Dropout(0.05)]
model = keras.Sequential(layers + [keras.layers.Dense(5, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

every_five_epochs = keras.callbacks.ModelCheckpoint(
    os.path.join(models, "epoch_{epoch:03d}.keras"),
    save_freq=5 * steps if FIXED else 5,
)
began = time.time()
history = model.fit(
    spectra, material, batch_size=BATCH, epochs=EPOCHS, verbose=2,
    callbacks=[every_five_epochs, keras.callbacks.CSVLogger(os.path.join(models, "log.csv"))],
)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
