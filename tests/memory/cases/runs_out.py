"""Trains models that do not fit. Arguments: a folder, and "jit".

Without the second one, prints what is known of an error in graph steps and of one in eager steps.
After one in a step that XLA compiled, TensorFlow's CPU allocator aborts when anything is freed:
there the exception ends the process.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import keras_gpukit as gpukit

BATCH = 512
MONITORS = []


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.first = keras.layers.Conv2D(8, 3, padding="same", name="first")
        self.second = keras.layers.Conv2D(64, 3, padding="same", name="second")
        self.pool = keras.layers.GlobalAveragePooling2D()

    def call(self, inputs):
        return self.pool(self.second(self.first(inputs)))


def functional() -> keras.Model:
    inputs = keras.Input((32, 32, 3))
    hidden = keras.layers.Conv2D(8, 3, padding="same", name="first")(inputs)
    hidden = keras.layers.Conv2D(64, 3, padding="same", name="second")(hidden)
    return keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(hidden))


def fit(model: keras.Model, log_dir: str, **options) -> None:
    model.compile("sgd", "mse", **options)
    inputs = np.zeros((BATCH, 32, 32, 3), "float32")
    targets = np.zeros((BATCH, 64), "float32")
    monitor = gpukit.Monitor(log_dir, verbose=0)
    MONITORS.append(monitor)
    model.fit(inputs, targets, batch_size=BATCH, verbose=0, callbacks=[monitor])


def pairs(targets, outputs):
    return tf.reduce_mean(tf.abs(outputs[:, None, 0] - outputs[None, :, 0]))


def known_of_validation(log_dir: str) -> dict:
    """What is known of a loss that compares all examples of a validation batch of 8,192."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", pairs, jit_compile=False)
    inputs, targets = np.zeros((8192, 4), "float32"), np.zeros((8192, 1), "float32")
    monitor = gpukit.Monitor(log_dir, verbose=0)
    options = {"verbose": 0, "callbacks": [monitor], "validation_batch_size": 8192}
    try:
        model.fit(inputs[:64], targets[:64], 32, validation_data=(inputs, targets), **options)
    except tf.errors.ResourceExhaustedError as error:
        finding = monitor.summary.findings[0]
        return {"title": finding.title, "advice": finding.advice, "note": error.__notes__[0]}
    raise AssertionError("the validation fits")


class Look(keras.layers.Layer):
    """Compares all places of an example with each other."""

    def call(self, inputs):
        return tf.reduce_mean(tf.abs(inputs[:, :, None] - inputs[:, None, :]), [1, 2])[:, None]


def known_of_long_example(log_dir: str) -> str:
    """The title where one example of 32 is 3,000 long, the others 10, in batches of 8."""
    lengths = [10] * 27 + [3000] + [10] * 4
    data = tf.data.Dataset.from_generator(
        lambda: ((np.zeros(length, "float32"), 0.0) for length in lengths),
        output_signature=(tf.TensorSpec((None,)), tf.TensorSpec(())),
    )
    data = data.padded_batch(8, ((None,), ()))
    outputs = keras.layers.Dense(1)(Look(name="look")(inputs := keras.Input((None,))))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse", jit_compile=False)
    monitor = gpukit.Monitor(log_dir, verbose=0)
    try:
        model.fit(data, verbose=0, callbacks=[monitor])
    except tf.errors.ResourceExhaustedError:
        return monitor.summary.findings[0].title
    raise AssertionError("the long example fits")


def known_of_error(model: keras.Model, log_dir: str, **options) -> dict:
    try:
        fit(model, log_dir, **options)
    except tf.errors.ResourceExhaustedError as error:
        summary = MONITORS[-1].summary
        record = summary.out_of_memory
        return {
            "type": type(error).__name__,
            "message": error.message,
            "notes": error.__notes__,
            "layer": record.layer,
            "shape": record.shape,
            "asked": record.state.asked_bytes,
            "limit": record.state.limit_bytes,
            "batch_size": record.batch_size,
            "predicted": record.prediction.fits_batch_size,
            "suggested": next(o.batch_size for o in record.options if o.kind == "batch size"),
            "first_finding": summary.findings[0].code,
        }
    raise AssertionError("the model fits")


if __name__ == "__main__":
    folder, *mode = sys.argv[1:]
    if mode:
        fit(Subclassed(), f"{folder}/jit", jit_compile=True)
    found = {
        "graph": known_of_error(functional(), f"{folder}/graph", jit_compile=False),
        "validation": known_of_validation(f"{folder}/validation"),
        "long example": known_of_long_example(f"{folder}/long"),
        "eager": known_of_error(Subclassed(), f"{folder}/eager", run_eagerly=True),
    }
    print(json.dumps(found))
