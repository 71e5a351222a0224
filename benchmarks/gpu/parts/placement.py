"""Placement: operations that no GPU runs, planted in models, and a model that has none."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.gpu.part import Outcome, Part

PLANTED = {
    "strings": ("AsString", "no kernel"),
    "int32_product": ("MatMul", "dtype"),
    "python": ("EagerPyFunc", "host function"),
    "requested": ("Softmax", "requested"),
}
"""What each model has that belongs on the CPU, and why it does."""
CLEAN = ("dense", "dense_jit", "float64_batch_norm")
"""Models without a fallback. Keras composes batch normalization in float64 of operations that have
GPU kernels; TensorFlow's fused one does not accept float64 at all."""
PART = Part("placement", "Does `DevicePlacement` find the operations that no GPU runs?")


@PART.slice("real", 60, case="real", alone=False)
def place(small: bool) -> dict[str, Any]:
    """Fits a step of each model, and returns what `DevicePlacement` reports."""
    import numpy as np

    import keras_gpukit as gpukit

    gpukit.configure_gpus(verbose=False)
    inputs, targets = np.ones((16, 8, 8, 4), "float32"), np.ones((16, 1), "float32")
    reported = {}
    for name in (*PLANTED, *CLEAN):
        placement = gpukit.DevicePlacement(None)
        build(name).fit(inputs, targets, batch_size=8, verbose=0, callbacks=[placement])
        record = placement.summary
        reported[name] = {
            "operations": record.operations,
            "fallbacks": [[fallback.operation, fallback.cause] for fallback in record.fallbacks],
            "predicted": record.predicted,
            "unknown_because": record.unknown_because,
        }
    return reported


def build(name: str) -> Any:
    """Returns a compiled model in which an operation is planted."""
    import keras
    import tensorflow as tf

    class Planted(keras.layers.Layer):
        def call(self, values):
            return operations[name](values)

    def strings(values):
        parsed = tf.strings.to_number(tf.strings.as_string(values))
        return tf.reshape(parsed, tf.shape(values))

    def int32_product(values):
        whole = tf.cast(10 * values, tf.int32)
        product = tf.linalg.matmul(whole, whole, transpose_b=True)
        return values + 1e-9 * tf.cast(tf.reduce_sum(product), tf.float32)

    def python(values):
        return tf.ensure_shape(tf.py_function(lambda x: x, [values], tf.float32), values.shape)

    def requested(values):
        with tf.device("CPU:0"):
            return tf.nn.softmax(values)

    operations = {
        function.__name__: function for function in (strings, int32_product, python, requested)
    }
    layers: list[Any] = [keras.layers.Flatten(), keras.layers.Dense(16, activation="relu")]
    if name == "float64_batch_norm":
        layers.insert(0, keras.layers.BatchNormalization(dtype="float64"))
    elif name in PLANTED:
        layers.append(Planted())
    model = keras.Sequential([keras.Input((8, 8, 4)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=name == "dense_jit")
    return model


def planted(reported: dict[str, Any], name: str) -> Outcome:
    """Judges whether a planted operation is found, with its cause."""
    operation, cause = PLANTED[name]
    found = [why for type_, why in reported[name]["fallbacks"] if type_ == operation]
    if reported[name]["predicted"]:
        return Outcome(False, "The fallbacks were reported as a prediction.")
    message = ", ".join(found) or "nothing"
    return Outcome(found == [cause], f"For {operation} it reports: {message}.")


for _name, (_operation, _cause) in PLANTED.items():
    _expected = f"{_operation} is reported on the CPU because of: {_cause}"
    PART.claim(_expected, "real", name=_name)(partial(planted, name=_name))


@PART.claim(
    "dense layers, also compiled by XLA, and float64 batch normalization have no fallback; the "
    "matrix products are on the GPU",
    "real",
)
def clean(reported: dict[str, Any]) -> Outcome:
    wrong = []
    for name in CLEAN:
        model = reported[name]
        products = [
            f"{type_} on {device}"
            for device, counts in model["operations"].items()
            for type_ in counts
            if "MatMul" in type_ and not device.startswith("GPU")
        ]
        fallbacks = [type_ for type_, cause in model["fallbacks"] if cause != "host memory"]
        unknown = [reason for reason in [model["unknown_because"]] if reason]
        wrong += [f"{name}: {problem}" for problem in (*products, *fallbacks, *unknown)]
    return Outcome(not wrong, "; ".join(wrong) or f"Nothing is reported in {len(CLEAN)} models.")
