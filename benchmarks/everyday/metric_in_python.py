"""A metric of scikit-learn runs in Python in each step.

As in keras-team/keras#12954 and #16653.

Finding: python-in-step, slow-metrics
Names: of_batch|mean_auc; metric; once per epoch
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf
from sklearn.metrics import roc_auc_score

FIXED = "--fix" in sys.argv
keras.utils.set_random_seed(1)
TAGS = 20

rng = np.random.default_rng(0)
features = rng.normal(size=(16_384, 64)).astype("float32")
tags = (features @ rng.normal(size=(64, TAGS)) > 0).astype("float32")


def of_batch(truth, score):
    return np.float32(roc_auc_score(truth, score, average="macro"))


def mean_auc(truth, score):
    value = tf.numpy_function(of_batch, [truth, score], tf.float32)
    value.set_shape(())
    return value


class AucPerEpoch(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        score = self.model.predict(features[:2048], batch_size=512, verbose=0)
        logs["mean_auc"] = roc_auc_score(tags[:2048], score, average="macro")


model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(TAGS, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=[] if FIXED else [mean_auc])
began = time.time()
history = model.fit(
    features, tags, batch_size=256, epochs=20, verbose=2, callbacks=[AucPerEpoch()] if FIXED else []
)
print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
print("LOSSES", history.history["loss"])
