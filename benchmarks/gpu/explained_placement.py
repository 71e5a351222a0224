"""Why operations are not where they were expected, and what is copied: both planted."""

from __future__ import annotations

import tempfile
from typing import Any

import keras
import tensorflow as tf

import keras_gpukit as gpukit
from benchmarks.gpu.explained_causes import CAUSES, EXAMPLES, NARROW, WIDE
from keras_gpukit.profiling import find_profiles, read_profile

STEPS, FIRST, CAPTURED = 24, 10, 6
MISSING, FAR = "GPU:99", "CPU:0"


class Planted(keras.layers.Layer):
    """A dense layer with one of the causes."""

    def build(self, shape: Any) -> None:
        with tf.device(FAR if self.name == "variable_elsewhere" else None):
            self.kernel = self.add_weight(shape=(shape[-1], NARROW), name="kernel")

    def call(self, inputs: Any) -> Any:
        product = tf.linalg.matmul(inputs, self.kernel)
        asked = {"no_such_device": MISSING, "compiled": FAR}.get(self.name)
        with tf.device(asked):
            return tf.nn.softplus(product)


def explain() -> dict[str, Any]:
    """Fits a model of each cause, and returns the rows that `DevicePlacement` has of it."""
    found: dict[str, Any] = {}
    for name, (operation, _) in CAUSES.items():
        record = _fit(name, gpukit.DevicePlacement(None)).summary
        found[name] = {
            "causes": [each.cause for each in record.rows if each.operation == operation],
            "copies": None
            if record.copies is None
            else [
                {
                    "source": each.source,
                    "target": each.target,
                    "bytes": each.size_bytes,
                    "unknown": each.unknown,
                    "largest": [[list(one.shape), one.size_bytes] for one in each.largest],
                }
                for each in record.copies
            ],
        }
    return found | {"profile": _copied_in_profile("variable_elsewhere")}


def _copied_in_profile(name: str) -> float | None:
    """Bytes from the host to the GPU in a step, as the driver's events in a profile have them."""
    with tempfile.TemporaryDirectory() as logs:
        _fit(name, gpukit.Profiler(logs, steps=CAPTURED, at_steps=(FIRST,)))
        record = read_profile(find_profiles(logs)[-1])
    known = [each.host_to_device_bytes for each in record.devices]
    if not record.steps or not known or None in known:
        return None
    return sum(each or 0 for each in known) / record.steps


def _fit(name: str, callback: Any) -> Any:
    model = keras.Sequential(
        [keras.Input((WIDE,)), Planted(name=name), keras.layers.Dense(1, name="head")]
    )
    model.compile("sgd", "mse", jit_compile=name == "compiled")
    batch = tf.zeros((EXAMPLES, WIDE)), tf.zeros((EXAMPLES, 1))
    data = tf.data.Dataset.from_tensors(batch).repeat(STEPS)
    model.fit(data, verbose=0, callbacks=[callback])
    return callback
