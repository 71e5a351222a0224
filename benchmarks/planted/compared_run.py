"""One short monitored training, as it is or a tenth slower: `compared_run.py NAME FOLDER [--slow]`.

The slower one does a tenth more of what takes most of its time, or sleeps for a tenth of it.
"""

from __future__ import annotations

import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from keras_gpukit import Monitor

FIT_S = 12.0
REPEATS, MORE = 10, 11
BATCH, FEATURES, WIDTH, IMAGE = 64, 512, 768, (16, 16, 16)


class EndAfter(keras.callbacks.Callback):
    """Ends a training some seconds after its first step."""

    def on_train_batch_end(self, batch, logs=None) -> None:
        if batch == 0:
            self.end_s = time.perf_counter() + FIT_S
        if time.perf_counter() > self.end_s:
            self.model.stop_training = True


class SleepsAfterSteps(keras.callbacks.Callback):
    """Sleeps after each step for a tenth of a step, as its first steps took."""

    def __init__(self) -> None:
        super().__init__()
        self.begins: list[float] = []
        self.sleep_s = 0.0

    def on_train_batch_begin(self, batch, logs=None) -> None:
        if not self.sleep_s:
            self.begins.append(time.perf_counter())
            if len(self.begins) == 40:
                self.sleep_s = 0.1 * float(np.median(np.diff(self.begins[5:])))

    def on_train_batch_end(self, batch, logs=None) -> None:
        time.sleep(self.sleep_s)


class Batches(keras.utils.PyDataset):
    """Batches that are made in Python, without workers."""

    def __init__(self, repeats: int) -> None:
        super().__init__(workers=1)
        self.repeats = repeats
        self.rows = np.random.default_rng(0).normal(size=(BATCH, FEATURES)).astype("float32")

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index):
        for _ in range(4 * self.repeats):
            np.sort(self.rows, axis=1)
        return self.rows, self.rows[:, :1]


def dense(layers: int) -> keras.Model:
    hidden = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(layers)]
    return keras.Sequential([keras.Input((WIDTH,)), *hidden, keras.layers.Dense(1)])


def convolutional(layers: int) -> keras.Model:
    hidden = [keras.layers.Conv2D(16, 3, padding="same", activation="relu") for _ in range(layers)]
    ends = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input(IMAGE), *hidden, *ends])


def small() -> keras.Model:
    return keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])


def in_memory(shape: tuple[int, ...]) -> tf.data.Dataset:
    rows = tf.random.stateless_normal((BATCH, *shape), (0, 0))
    return tf.data.Dataset.from_tensors((rows, tf.zeros((BATCH, 1)))).repeat()


def mapped(repeats: int) -> tf.data.Dataset:
    """Batches that TensorFlow's own operations make, one after the other."""

    def work(row):
        return tf.foldl(lambda values, _: tf.sort(values), tf.range(4 * repeats), row)

    rows = tf.data.Dataset.from_tensors(tf.random.stateless_normal((BATCH, FEATURES), (0, 0)))
    return rows.repeat().map(work).map(lambda row: (row, row[:, :1]))


def training(name: str, repeats: int) -> tuple[keras.Model, object, list[keras.callbacks.Callback]]:
    """Returns model, input and callbacks; of the slower run with more repeats."""
    if name == "dense":
        return dense(repeats), in_memory((WIDTH,)), []
    if name == "convolutional":
        return convolutional(repeats), in_memory(IMAGE), []
    if name == "callback":
        sleeps = [SleepsAfterSteps()] if repeats == MORE else []
        return dense(REPEATS), in_memory((WIDTH,)), sleeps
    if name == "tf.data":
        return small(), mapped(repeats), []
    return small(), Batches(repeats), []


def main() -> None:
    name, folder = sys.argv[1:3]
    keras.utils.set_random_seed(0)
    model, batches, callbacks = training(name, MORE if "--slow" in sys.argv else REPEATS)
    model.compile("sgd", "mse", jit_compile=False)
    more = [*callbacks, EndAfter(), Monitor(folder, verbose=0)]
    model.fit(batches, epochs=1, steps_per_epoch=1_000_000, verbose=0, callbacks=more)
    # TensorFlow may wait forever for a Python generator that it fetches from as Python ends.
    os._exit(0)


if __name__ == "__main__":
    main()
