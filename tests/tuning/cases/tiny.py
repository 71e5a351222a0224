"""A script of a user, with a callback that writes and a validation, neither of which may run."""

import sys
from pathlib import Path

import keras
import numpy as np


class Writes(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        Path(sys.argv[1]).write_text("written")


def build():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def data():
    return np.ones((640, 8), "float32"), np.ones((640, 1), "float32")


if __name__ == "__main__":
    x, y = data()
    build().fit(x, y, batch_size=4, epochs=5, callbacks=[Writes()], validation_data=(x, "none"))
    Path(sys.argv[1]).write_text("after fit")
