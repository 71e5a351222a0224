"""The memory that `predict_memory` predicts, against the peak of steps that really run."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from benchmarks.gpu.nvml import count_as_gpus_do
from benchmarks.gpu.part import Cases, Measured, Outcome, Part, error_of

IMAGES = {"ResNet50": 64, "MobileNetV2": 128, "VGG16": 64}
"""Architectures of `keras.applications`, and their batches."""
MODELS = (*IMAGES, "transformer", "dense")
IN_JIT = tuple(f"{name}, jit" for name in MODELS)
RECURRENT = ("LSTM", "GRU")
SIDE, STEPS, WITHIN = 160, 4, 0.1
PART = Part("predictions", "Do training steps take the memory that is predicted?")
SLICES = {
    "images": tuple(IMAGES),
    "images-jit": ("VGG16, jit", "MobileNetV2, jit"),
    "images-jit-2": ("ResNet50, jit",),
    "others": ("dense", "dense, jit", "transformer", "transformer, jit"),
    "recurrent": RECURRENT,
}


def cases(small: bool, *, names: tuple[str, ...]) -> Cases:
    """Predicts and trains some models."""
    for name in names[:1] if small else names:
        yield name, partial(predict, *name.partition(", jit")[:2], small)


for _name, _models in SLICES.items():
    # Other slices would slow down XLA, which compiles image models for over a minute.
    PART.slice(_name, 110, alone="jit" in _name)(partial(cases, names=_models))


def build(name: str, small: bool) -> tuple[Any, tuple[Any, ...]]:
    """Returns a model that is not compiled, and a batch for it."""
    import keras
    import numpy as np
    from keras import layers

    from benchmarks.gpu.models import convolutional, dense, transformer

    if name in IMAGES and small:
        batch, model = 8, convolutional(8, 1, 8)
    elif name in IMAGES:
        batch = IMAGES[name]
        model = getattr(keras.applications, name)(
            weights=None, classes=10, input_shape=(SIDE, SIDE, 3), classifier_activation=None
        )
    elif name == "transformer":
        batch, shape = (2, (8, 16)) if small else (64, (256, 64))
        model = transformer(16 if small else 512, 1 if small else 4, *shape)
    elif name == "dense":
        batch, width = (8, 64) if small else (4096, 4096)
        model = dense(width, 6, 256)
    else:
        batch, length, units = (4, 5, 8) if small else (256, 200, 512)
        kind = getattr(layers, name)
        stack = [kind(units, return_sequences=True), kind(units), layers.Dense(10)]
        model = keras.Sequential([keras.Input((length, 64)), *stack])
    inputs = np.zeros((batch, *model.inputs[0].shape[1:]), "float32")
    return model, (inputs, np.zeros(batch, "int32"))


def predict(name: str, jit: str, small: bool) -> dict[str, Any]:
    """Predicts the memory of a model's steps, and trains it."""
    count_as_gpus_do()
    import keras
    import tensorflow as tf

    import keras_gpukit as gpukit

    device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
    keras.backend.clear_session()
    model, batch = build(name, small)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=bool(jit))
    prediction = gpukit.predict_memory(model, batch, verbose=False)
    data = tf.data.Dataset.from_tensors(batch).repeat(STEPS)
    peaks = []
    for _ in range(2):  # the first step tries algorithms
        tf.config.experimental.reset_memory_stats(device)
        model.fit(data, verbose=0)
        peaks.append(tf.config.experimental.get_memory_info(device)["peak"])
    return {
        "low": prediction.low and prediction.low.total_bytes,
        "predicted": prediction.peak_bytes,
        "high": prediction.high and prediction.high.total_bytes,
        "unknown_because": prediction.unknown_because,
        "first_peak": peaks[0],
        "peak": peaks[1],
    }


def outcome(measured: Measured, names: tuple[str, ...], *, at_most: bool = False) -> Outcome:
    """Judges predictions; one that leaves something out must only not be too high.

    If `at_most`, a complete prediction is an upper bound, so that no step may take more.
    """
    message, wrong = [], []
    for name in names:
        row = measured.get(name)
        if row is None or error_of(row):
            continue
        if row["predicted"] is None:
            message.append(f"{name} unknown")
            continue
        error = row["predicted"] / row["peak"] - 1
        partly = row["unknown_because"] is not None
        message.append(f"{name} {100 * error:+.1f} %{' (a lower bound)' if partly else ''}")
        least, most = (0.0, math.inf) if at_most and not partly else (-WITHIN, WITHIN)
        if error > most or (error < least and not partly):
            wrong.append(name)
    if not message:
        return Outcome(None, "no model was measured")
    complete = len(message) == len(names)
    return Outcome(False if wrong else True if complete else None, f"{', '.join(message)}.")


@PART.claim(
    "for three convolutional models, a transformer and dense layers, the expected peak is that of "
    "the steps after the first, within 10 %"
)
def plain(measured: Measured) -> Outcome:
    return outcome(measured, MODELS)


@PART.claim("with jit the prediction is an upper bound, as it says: no later step takes more")
def jit(measured: Measured) -> Outcome:
    return outcome(measured, IN_JIT, at_most=True)


@PART.claim("for LSTM and GRU, which cuDNN runs, it is the later steps' peak, within 10 %")
def recurrent(measured: Measured) -> Outcome:
    return outcome(measured, RECURRENT)
