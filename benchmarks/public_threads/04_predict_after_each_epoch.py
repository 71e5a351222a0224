# Source: GitHub, keras-team/keras #5794 "Precision, Recall and F1 Metrics Removed" (the answer that everybody copies: a
#   callback that calls predict in on_epoch_end) and #4168 (predictions of the training set after each epoch).
# The user saw: an F1 score per epoch was added by a callback from the web. The progress bar is as quick as before, yet
#   the whole training takes three times as long, with a pause between the epochs.
# True cause: on_epoch_end runs predict over all 16,000 training texts and the validation texts again, 32 at a time, and
#   then validation runs once more in fit.
# First line of a good tool: Scores.on_epoch_end (line) takes .. % of the time: predict over the training texts after
#   each epoch; a metric (keras.metrics.F1Score) counts while training, or score only the validation set, batch_size=512.
# Must not say: input-bound, epochs start slowly because of the dataset/shuffle, validation (fit's own is a tenth of it),
#   small steps in fit.
# FIXED=1: F1Score as a metric in compile. Kind: speed, callback.
import os, sys, time

import keras
import numpy as np

FIXED = os.environ.get("FIXED") == "1"
keras.utils.set_random_seed(1)
WORDS, LENGTH = 6_000, 100

rng = np.random.default_rng(0)
texts = (WORDS * rng.random((18_000, LENGTH)) ** 2).astype("int32")
angry = ((texts < 40).sum(1) > 8).astype("float32")[:, None]
x, y, x_val, y_val = texts[:16_000], angry[:16_000], texts[16_000:], angry[16_000:]


class Scores(keras.callbacks.Callback):
    def __init__(self, **parts):
        super().__init__()
        self.parts = parts

    def on_epoch_end(self, epoch, logs=None):
        for name, (rows, wanted) in self.parts.items():
            said = self.model.predict(rows, verbose=0) > 0.5
            hits = (said * wanted).sum()
            print(f"{name} F1 {2 * hits / (said.sum() + wanted.sum() + 1e-9):.3f}")


model = keras.Sequential([
    keras.Input((LENGTH,), dtype="int32"),
    keras.layers.Embedding(WORDS, 24),
    keras.layers.Conv1D(32, 5, activation="relu"),
    keras.layers.GlobalMaxPooling1D(),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.F1Score(threshold=0.5)] if FIXED else [])
callbacks = [] if FIXED else [Scores(train=(x, y), valid=(x_val, y_val))]
began = time.time()
history = model.fit(
    x, y, batch_size=256, epochs=7, verbose=2, validation_data=(x_val, y_val), validation_batch_size=256,
    callbacks=callbacks,
)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
