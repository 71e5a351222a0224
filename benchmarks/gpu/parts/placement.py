"""Placement: operations that no GPU runs, planted in models, and a model that has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.gpu.explained_causes import CAUSES, judge_bytes, judge_cause, judge_profile
from benchmarks.gpu.part import Claim, Outcome, Part, Slice, attempt

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


def place() -> dict[str, Any]:
    """Fits a step of each model, and returns what `DevicePlacement` reports."""
    import numpy as np

    import keras_gpukit as gpukit

    gpukit.configure_gpus(verbose=False)
    inputs, targets = np.ones((16, 8, 8, 4), "float32"), np.ones((16, 1), "float32")
    reported = {}
    for name in (*PLANTED, *CLEAN):
        placement = gpukit.DevicePlacement(None)
        model = build(name)
        model.fit(inputs, targets, batch_size=8, verbose=0, callbacks=[placement])
        record = placement.summary
        reported[name] = {
            "operations": record.operations,
            "fallbacks": [[each.operation, each.cause] for each in record.fallbacks],
            "predicted": record.predicted,
            "mechanism": record.mechanism,
            "unknown_because": record.unknown_because,
        }
    from benchmarks.gpu.explained_placement import explain

    return reported | {"explained": attempt(explain)}


def build(name: str) -> Any:
    """Returns a compiled model in which an operation is planted."""
    import keras

    class Planted(keras.layers.Layer):
        def call(self, inputs):
            return planted_operations()[name](inputs)

    layers: list[Any] = [keras.layers.Flatten(), keras.layers.Dense(16, activation="relu")]
    if name == "float64_batch_norm":
        layers.insert(0, keras.layers.BatchNormalization(dtype="float64"))
    elif name in PLANTED:
        layers.append(Planted())
    model = keras.Sequential([keras.Input((8, 8, 4)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=name == "dense_jit")
    return model


def planted_operations() -> dict[str, Callable[[Any], Any]]:
    """Returns functions that do something that no GPU does, and return as many floats."""
    import tensorflow as tf

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

    return {
        "strings": strings,
        "int32_product": int32_product,
        "python": python,
        "requested": requested,
    }


def place_eagerly() -> dict[str, str]:
    """Returns the device of eager results, with the GPU asked for."""
    import tensorflow as tf

    import keras_gpukit as gpukit

    gpukit.configure_gpus(verbose=False)
    gpus = tf.config.list_logical_devices("GPU")
    ones = tf.ones((8, 8))
    with tf.device(gpus[0].name if gpus else "CPU:0"):
        whole = tf.cast(ones, tf.int32)
        results = {
            "strings": tf.strings.as_string(ones),
            "int32_product": tf.linalg.matmul(whole, whole),
            "python": tf.py_function(lambda x: x, [ones], tf.float32),
            "float_product": tf.linalg.matmul(ones, ones),
        }
    return {name: result.device for name, result in results.items()}


def judge_planted(name: str) -> Callable[[dict[str, Any]], Outcome]:
    operation, cause = PLANTED[name]

    def judge_one(reported: dict[str, Any]) -> Outcome:
        found = [why for type_, why in reported[name]["fallbacks"] if type_ == operation]
        if reported[name]["predicted"]:
            return Outcome(False, "The fallbacks were reported as a prediction.")
        message = ", ".join(found) or "nothing"
        return Outcome(found == [cause], f"For {operation} it reports: {message}.")

    return judge_one


def judge_clean(reported: dict[str, Any]) -> Outcome:
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
        unknown = model["unknown_because"] and [model["unknown_because"]]
        wrong += [f"{name}: {each}" for each in (*products, *fallbacks, *(unknown or []))]
    return Outcome(not wrong, "; ".join(wrong) or f"Nothing is reported in {len(CLEAN)} models.")


def judge_eager(devices: dict[str, str]) -> Outcome:
    short = {name: device.split("device:")[-1] for name, device in devices.items()}
    on_cpu = all(short[name].startswith("CPU") for name in ("strings", "int32_product"))
    return Outcome(
        on_cpu and short["float_product"].startswith("GPU"),
        f"Eager results: {', '.join(f'{name} on {device}' for name, device in short.items())}.",
    )


def judge_predicted(real: dict[str, Any], predicted: dict[str, Any]) -> Outcome:
    differing = [
        name
        for name, (operation, _) in PLANTED.items()
        if _causes(real[name], operation) != _causes(predicted[name], operation)
    ]
    return Outcome(
        not differing,
        f"Predicted otherwise: {', '.join(differing) or 'none'} of {len(PLANTED)} models.",
    )


def _causes(reported: dict[str, Any], operation: str) -> list[str]:
    return sorted(cause for type_, cause in reported["fallbacks"] if type_ == operation)


PART = Part(
    "placement",
    "Does `DevicePlacement` find the operations that no GPU runs?",
    {
        "real": Slice(lambda small, _: [("real", place)], alone=False),
        "predicted": Slice(
            lambda small, _: [("predicted", place)],
            alone=False,
            environment={"CUDA_VISIBLE_DEVICES": "-1"},
        ),
        "eager": Slice(lambda small, _: [("eager", place_eagerly)], 30, alone=False),
    },
    (
        *(
            Claim(
                name,
                f"{operation} has a row in the table of placement, because of: {cause}",
                judge_cause(name),
                ("real",),
            )
            for name, (operation, cause) in CAUSES.items()
        ),
        Claim(
            "copied_bytes",
            "a dense layer's 8 MiB of weights that are on the CPU are listed as copied to the GPU "
            "in each step, with their exact size, as is the batch",
            judge_bytes,
            ("real",),
        ),
        Claim(
            "copied_in_profile",
            "what is copied to the GPU in a step is what the copies of a profile come to, within "
            "5 %",
            judge_profile,
            ("real",),
        ),
        *(
            Claim(
                name,
                f"{operation} is reported on the CPU because of: {cause}",
                judge_planted(name),
                ("real",),
            )
            for name, (operation, cause) in PLANTED.items()
        ),
        Claim(
            "clean",
            "dense layers, also compiled by XLA, and float64 batch normalization have no fallback; "
            "the matrix products are on the GPU",
            judge_clean,
            ("real",),
        ),
        Claim(
            "eager",
            "TensorFlow makes strings and int32 products on the CPU when they are asked for one by "
            "one",
            judge_eager,
            ("eager",),
        ),
        Claim(
            "predicted",
            "the same process without a visible GPU predicts the same fallbacks",
            judge_predicted,
            ("real", "predicted"),
        ),
    ),
)
