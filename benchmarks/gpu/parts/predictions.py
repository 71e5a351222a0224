"""The memory that `predict_memory` predicts, against the peak of steps that really run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from benchmarks.gpu.part import Cases, Claim, Measured, Outcome, Part, Slice, error_of
from benchmarks.gpu.parts.memory import count_as_gpus_do

IMAGES = {"ResNet50": 64, "MobileNetV2": 128, "EfficientNetB0": 64, "VGG16": 64}
"""Architectures of `keras.applications`, and their batches."""
MODELS = (*IMAGES, "transformer", "dense")
SIDE = 160
RECURRENT = ("LSTM", "GRU")
WITHIN = 0.1
STEPS = 4


def slice_of(models: Iterable[tuple[str, bool]], *, alone: bool = False) -> Slice:
    """Returns a slice of some models, each with or without jit.

    Args:
        models: Names of models, and whether XLA compiles their steps.
        alone: Whether no other slice runs meanwhile, which slows XLA's compilation down.
    """

    def cases(small: bool, folder: Any) -> Cases:
        for name, jit in list(models)[:1] if small else models:
            yield f"{name}{', jit' if jit else ''}", partial(predict, name, jit, small)

    return Slice(cases, 110, alone=alone)


def build(name: str, small: bool) -> tuple[Any, tuple[Any, ...]]:
    """Returns a model that is not compiled, and a batch for it."""
    import keras
    import numpy as np
    from keras import layers

    from benchmarks.gpu.models import convolutional, transformer

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
        stack = [layers.Dense(width, "relu") for _ in range(6)]
        model = keras.Sequential([keras.Input((256,)), *stack, layers.Dense(10)])
    else:
        batch, length, units = (4, 5, 8) if small else (256, 200, 512)
        kind = getattr(layers, name)
        stack = [kind(units, return_sequences=True), kind(units), layers.Dense(10)]
        model = keras.Sequential([keras.Input((length, 64)), *stack])
    inputs = np.zeros((batch, *model.inputs[0].shape[1:]), "float32")
    return model, (inputs, np.zeros(batch, "int32"))


def predict(name: str, jit: bool, small: bool) -> dict[str, Any]:
    """Predicts the memory of a model's steps, and trains it."""
    count_as_gpus_do()
    import keras
    import tensorflow as tf

    import keras_gpukit as gpukit

    device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
    keras.backend.clear_session()
    model, batch = build(name, small)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=jit)
    began_s = time.perf_counter()
    prediction = gpukit.predict_memory(model, batch, verbose=False)
    predicted_s = time.perf_counter() - began_s
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
        "predicted_s": predicted_s,
    }


def outcome(measured: Measured, names: Sequence[str], *, at_most: bool = False) -> Outcome:
    """Judges predictions; one that leaves something out must only not be too high.

    Args:
        measured: Measurements by name.
        names: Names of the models.
        at_most: Whether a complete prediction is an upper bound, so that no step may take more.
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


PART = Part(
    "predictions",
    "Do training steps take the memory that is predicted?",
    {
        "images": slice_of([(name, False) for name in ("ResNet50", "MobileNetV2")]),
        "images-2": slice_of([(name, False) for name in ("EfficientNetB0", "VGG16")]),
        "images-jit": slice_of([("MobileNetV2", True), ("VGG16", True)], alone=True),
        "images-jit-2": slice_of([("ResNet50", True)], alone=True),
        "images-jit-3": slice_of([("EfficientNetB0", True)], alone=True),
        "others": slice_of([(name, jit) for name in ("transformer", "dense") for jit in (0, 1)]),
        "recurrent": slice_of([(name, False) for name in RECURRENT]),
    },
    (
        Claim(
            "plain",
            "for four convolutional models, a transformer and dense layers, the expected peak is "
            "that of the steps after the first, within 10 %",
            partial(outcome, names=MODELS),
        ),
        Claim(
            "jit",
            "with jit the prediction is an upper bound, as it says: no later step takes more",
            partial(outcome, names=[f"{name}, jit" for name in MODELS], at_most=True),
        ),
        Claim(
            "recurrent",
            "for LSTM and GRU, which cuDNN runs, it is the later steps' peak, within 10 %",
            partial(outcome, names=RECURRENT),
        ),
    ),
)
