"""Float formats in which a GPU multiplies matrices, and what is measured in each."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

import keras_gpukit as gpukit
from benchmarks.gpu.models import Case
from keras_gpukit.rules.compute.precision import Float32OnTensorCores

GAIN = Float32OnTensorCores.peak_rate_over_that_of_now.key
EPOCHS, STEPS, EACH = 4, 16, 8
"""Epochs of a training, steps of an epoch, and of an execution: Keras' loop then costs little."""


@dataclass(frozen=True)
class Precision:
    """A format.

    Attributes:
        policy: Keras' dtype policy.
        tf32: Whether float32 products may be computed as TensorFloat-32.
        dtype: Of activations.
    """

    policy: str
    tf32: bool
    dtype: str

    @contextmanager
    def set(self) -> Iterator[None]:
        """Sets it for models built and compiled within, and float32 afterwards."""
        tf.config.experimental.enable_tensor_float_32_execution(self.tf32)
        keras.config.set_dtype_policy(self.policy)
        try:
            yield
        finally:
            keras.config.set_dtype_policy("float32")
            tf.config.experimental.enable_tensor_float_32_execution(True)


PRECISIONS = {
    "float32": Precision("float32", False, "float32"),
    "TF32": Precision("float32", True, "float32"),
    "bfloat16": Precision("mixed_bfloat16", True, "bfloat16"),
}


class EpochClock(keras.callbacks.Callback):
    """Times epochs from their begin to their last step's end."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.epochs_s: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._began_s = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._ended_s = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs_s.append(self._ended_s - self._began_s)


def promise(case: Case, precision: Precision) -> dict[str, Any]:
    """Returns the ratio that the finding about float32 rests on; None without that finding."""
    with precision.set(), tempfile.TemporaryDirectory() as logs:
        monitor = gpukit.Monitor(logs, verbose=0)
        model = case.compiled(jit_compile=False)
        model.fit(case.data(), steps_per_epoch=4, verbose=0, callbacks=[monitor])
    found = (each for each in monitor.summary.findings if each.code == "float32-on-tensor-cores")
    figures = (figure for finding in found for figure in finding.evidence)
    return {"gain": next((each.value for each in figures if each.key == GAIN), None)}


def train(case: Case, precision: Precision) -> dict[str, Any]:
    """Trains a model, and returns its step time."""
    clock = EpochClock()
    with precision.set():
        model = case.compiled(jit_compile=False, steps_per_execution=EACH)
        model.fit(case.data(), epochs=EPOCHS, steps_per_epoch=STEPS, verbose=0, callbacks=[clock])
    return {"step_ms": 1e3 * statistics.median(clock.epochs_s[1:]) / STEPS}
