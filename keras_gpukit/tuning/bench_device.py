"""Measurements of small models on a device; all of them run in that device's own process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from keras_gpukit.errors import NoGPUError, one_line
from keras_gpukit.records.report import BenchmarkRow, DeviceKind
from keras_gpukit.records.run import Ceilings
from keras_gpukit.records.tuning import Rate
from keras_gpukit.rules.compute.precision import TF32_FROM
from keras_gpukit.sensors.devices import visible_gpus
from keras_gpukit.sensors.host import processor_name
from keras_gpukit.tuning.measured_rates import compute_rate, run_for
from keras_gpukit.version import __version__

CLASSES = 10


@dataclass(frozen=True)
class StandardModel:
    """A model with the shape of its data.

    Attributes:
        build: Returns the model, not compiled.
        shape: Shape of an example.
        batches: Examples in a batch, by kind of device: steps of milliseconds on a current GPU, and
            of a tenth of a second on a few cores.
    """

    build: Callable[[], Any]
    shape: tuple[int, ...]
    batches: dict[str, int]


def dense() -> Any:
    """Returns a model of nearly nothing but matrix products."""
    import keras

    layers = [keras.layers.Dense(1024, activation="relu") for _ in range(4)]
    return keras.Sequential([keras.Input((64,)), *layers, _head()])


def convolutional() -> Any:
    """Returns convolutions with batch normalization and residual connections."""
    import keras

    inputs = keras.Input((32, 32, 3))
    values = keras.layers.Conv2D(64, 3, padding="same")(inputs)
    for _ in range(4):
        inner = keras.layers.Conv2D(64, 3, padding="same", use_bias=False)(values)
        inner = keras.layers.ReLU()(keras.layers.BatchNormalization()(inner))
        values = keras.layers.Add()([values, inner])
    return keras.Model(inputs, _head()(keras.layers.GlobalAveragePooling2D()(values)))


def transformer() -> Any:
    """Returns two blocks of attention, layer normalization and dense layers."""
    import keras

    inputs = keras.Input((64, 64))
    values = keras.layers.Dense(512)(inputs)
    for _ in range(2):
        inner = keras.layers.LayerNormalization()(values)
        values = keras.layers.Add()([values, keras.layers.MultiHeadAttention(8, 64)(inner, inner)])
        inner = keras.layers.LayerNormalization()(values)
        inner = keras.layers.Dense(2048, activation="gelu")(inner)
        values = keras.layers.Add()([values, keras.layers.Dense(512)(inner)])
    return keras.Model(inputs, _head()(keras.layers.GlobalAveragePooling1D()(values)))


def _head() -> Any:
    """Returns the last layer, in float32 as Keras' guide to mixed precision advises."""
    import keras

    return keras.layers.Dense(CLASSES, dtype="float32")


MODELS = {
    "dense": StandardModel(dense, (64,), {"GPU": 16384, "CPU": 64}),
    "convolutional": StandardModel(convolutional, (32, 32, 3), {"GPU": 256, "CPU": 4}),
    "transformer": StandardModel(transformer, (64, 64), {"GPU": 128, "CPU": 2}),
}


# A row is the median of so many rounds, each of four steps at least.
ROUNDS, ROW_S = 4, 1.0
CEILING_ROUNDS, PRODUCTS = 3, 4
# A ceiling of products is that of the best size, up to the first whose product takes so long.
SIZES, LONG_S = (256, 512, 1024, 2048, 4096, 8192), 0.01
NUMBERS = {"GPU": 2**28, "CPU": 2**25}
"""Numbers of an array that is copied: far more than caches hold."""
POLICIES = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
NO_GPU = "TensorFlow lists no GPU: `keras-gpukit doctor` says why"


def open_device(kind: DeviceKind) -> tuple[str, dict[str, str]]:
    """Lets this process use the first GPU only, or none; returns the device's name and versions."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")[:1] if kind == "GPU" else []
    tf.config.set_visible_devices(gpus, "GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if kind == "GPU" and not gpus:
        raise NoGPUError(NO_GPU)
    name = visible_gpus()[0].name or "GPU" if gpus else processor_name()
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    return name, {**versions, "keras_gpukit": __version__}


def measure_row(row: BenchmarkRow) -> BenchmarkRow:
    """Trains a model in a setting, and returns the row with its rate or the reason for none."""
    try:
        return replace(row, rate=_rate(row))
    except Exception as error:
        return replace(row, failed_because=one_line(f"{type(error).__name__}: {error}"))


def _rate(row: BenchmarkRow) -> Rate:
    import keras
    import tensorflow as tf

    _set_tf32(row.precision)
    model_of = MODELS[row.model]
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(POLICIES.get(row.precision, "float32"))
    model = model_of.build()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, jit_compile=row.jit)
    inputs = tf.random.normal((row.batch, *model_of.shape))
    classes = tf.random.uniform((row.batch,), maxval=CLASSES, dtype=tf.int32)
    held = tf.data.Dataset.from_tensors((inputs, classes))
    rate = compute_rate(model, held, seconds=ROW_S, rounds=ROUNDS)
    batch = row.batch
    return Rate(batch * rate.median, batch * rate.low, batch * rate.high, "examples/s")


def _set_tf32(precision: str) -> None:
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(precision != "float32")
    capability = next((gpu.compute_capability for gpu in visible_gpus()), None)
    if precision == "TF32" and (capability is None or capability < TF32_FROM):
        raise ValueError("no TF32: a GPU has it from compute capability 8.0 on")


def measure_ceilings(kind: DeviceKind, precisions: Iterable[str]) -> Ceilings:
    """Measures the highest rates of products in each precision, and of copies."""
    import tensorflow as tf

    tflops = {}
    for precision in precisions:
        try:
            _set_tf32(precision)
        except ValueError:
            continue
        tflops[precision] = _best_tflops("float32" if precision == "TF32" else precision)
    size_gb = 4e-9 * NUMBERS[kind]
    values = tf.ones(NUMBERS[kind])
    # In place, since memory that the system has just given is slow on a CPU: two reads and a write.
    total = tf.Variable(values)
    device_gb_per_s = 3 * size_gb / _best_s(lambda: total.assign_add(values), 10)
    if kind == "CPU":
        return Ceilings(tflops, device_gb_per_s)
    with tf.device("CPU:0"):
        host = tf.ones(NUMBERS[kind])
    with tf.device("GPU:0"):
        return Ceilings(tflops, device_gb_per_s, size_gb / _best_s(lambda: tf.identity(host), 2))


def _best_tflops(dtype: str) -> float:
    import tensorflow as tf

    best = 0.0
    for size in SIZES:
        factor = tf.cast(tf.random.normal((size, size)), dtype)
        took_s = _best_s(partial(tf.matmul, factor, factor), PRODUCTS)
        best = max(best, 2e-12 * size**3 / took_s)
        if took_s > LONG_S:
            break
    return best


def _best_s(call: Callable[[], Any], calls: int) -> float:
    """Returns the shortest time of a call, of rounds that wait for the device at their end."""
    run_for(call, 0)  # loads what it needs
    times_s = []
    for _ in range(CEILING_ROUNDS):
        began_s = time.perf_counter()
        run_for(call, 0, at_least=calls)
        times_s.append((time.perf_counter() - began_s) / calls)
    return min(times_s)
