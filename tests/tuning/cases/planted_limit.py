"""Searches batch sizes with an allocator that has a limit: "here", "isolated" or "held back".

Prints what was found, and whether the model is as it was; or the peaks of trials with less memory.
"trained" and a batch size trains with it, and prints the losses.
"""

import json
import os
import sys

# Before TensorFlow is loaded: an allocator with a limit, whose errors do not end the process.
os.environ.update(
    TF_CPU_ALLOCATOR_USE_BFC="true",
    TF_CPU_BFC_MEM_LIMIT_IN_MB="16" if sys.argv[1] in ("isolated", "trained") else "48",
    TF_ENABLE_ONEDNN_OPTS="0",
)

import keras
import numpy as np
import tensorflow as tf

import keras_gpukit as gpukit
from keras_gpukit.records import to_dict
from keras_gpukit.tuning.examples import examples_of
from keras_gpukit.tuning.trainer import DoesNotFit, Trainer

X, Y = np.ones((4000, 64), "float32"), np.ones((4000, 8), "float32")
# The pool grows in pieces, and XLA needs the memory of a step in one of them. So all else must be
# small, or it is left to chance which pieces there are when a step first needs its own.
FEW = 4


def build(features: int = 64, **options) -> keras.Model:
    keras.utils.set_random_seed(3)
    wide = [keras.layers.Dense(2048, "relu"), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((features,)), *wide, keras.layers.Dense(8)])
    model.compile("adam", "mse", **{"jit_compile": False, **options})
    return model


def here() -> dict:
    model, untouched = build(), build()
    search = gpukit.find_batch_size(model, (X, Y), seconds=60, verbose=False)
    fit = {"epochs": 2, "verbose": 0}
    losses = [each.fit(X[:256], Y[:256], **fit).history["loss"] for each in (model, untouched)]
    model.fit(X, Y, batch_size=search.largest, epochs=3, verbose=0)
    return {"search": to_dict(search), "losses": losses}


def isolated() -> dict:
    model, data = build(FEW, jit_compile=True), (X[:, :FEW], Y)
    search = gpukit.find_batch_size(model, data, isolated=True, seconds=60)
    return {"search": to_dict(search)}


def trained() -> dict:
    size = int(sys.argv[2])
    model = build(FEW, jit_compile=True)
    fitted = model.fit(X[:, :FEW], Y, batch_size=size, epochs=3, verbose=0)
    return {"losses": fitted.history["loss"]}


def held_back() -> dict:
    trainer, peaks = Trainer(build(), examples_of((X, Y)), filtered=True), []
    for mebibytes in (0, 0, 8, 32, 0):  # the first one makes the optimizer's slots
        try:
            peaks.append(trainer.train(512, withheld_bytes=mebibytes * 2**20))
        except DoesNotFit:
            peaks.append(None)
    plain = build()
    model = FirstOnly(plain.inputs, plain.outputs)
    model.compile("adam", "mse", run_eagerly=True)
    trainer = Trainer(model, examples_of((X, Y)))
    return {"peaks": peaks[1:], "first only": [trainer.train(64) for _ in range(2)]}


class FirstOnly(keras.Model):
    """Needs 12 MiB more in its first step, as a GPU on which cuDNN tries algorithms."""

    is_tried = False

    def train_step(self, data):
        if not self.is_tried:
            self.is_tried = True
            tf.zeros((3 * 2**20,))
        return super().train_step(data)


if __name__ == "__main__":
    modes = {"here": here, "isolated": isolated, "trained": trained, "held back": held_back}
    print(json.dumps(modes[sys.argv[1]]()))
