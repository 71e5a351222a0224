"""Captures four models with a slow layer on a CPU, with and without XLA: `slow/*.xplane.pb.xz`.

    PYTHONPATH=tests python tests/profiling/cases/slow_layers.py

Each is trained in a process of its own, since a profile holds all programs that XLA compiled.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import keras_gpukit as gpukit

FOLDER = Path(__file__).parent / "slow"


class SmallProducts(keras.layers.Layer):
    """64 products of small matrices, one by one."""

    def build(self, shape):
        self.matrices = self.add_weight(shape=(64, shape[-1] // 64, shape[-1] // 64))

    def call(self, inputs):
        parts = tf.split(inputs, 64, axis=-1)
        products = [tf.matmul(part, self.matrices[at]) for at, part in enumerate(parts)]
        return tf.concat(products, -1)


def normalized():
    inputs = values = keras.Input((64, 64, 16))
    for _ in range(3):
        values = keras.layers.BatchNormalization()(values)
    values = keras.layers.Conv2D(16, 1, strides=4)(values)
    outputs = keras.layers.Dense(1)(keras.layers.GlobalAveragePooling2D()(values))
    return keras.Model(inputs, outputs), np.ones((32, 64, 64, 16), "float32")


def in_float64():
    precise = keras.layers.Dense(512, dtype="float64", name="precise")
    layers = [keras.layers.Dense(512), precise, keras.layers.Dense(512), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((512,)), *layers]), np.ones((256, 512), "float32")


def embedded():
    inputs = keras.Input((20,), dtype="int32")
    values = keras.layers.Embedding(200_000, 64)(inputs)
    outputs = keras.layers.Dense(1)(keras.layers.GlobalAveragePooling1D()(values))
    return keras.Model(inputs, outputs), np.random.default_rng(0).integers(0, 200_000, (64, 20))


def in_small_products():
    layers = [SmallProducts(name="products"), keras.layers.Dense(64), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((1024,)), *layers]), np.ones((64, 1024), "float32")


MODELS = {
    "normalization": normalized,
    "float64": in_float64,
    "embedding": embedded,
    "products": in_small_products,
}


def capture(name: str, jit: bool) -> None:
    model, inputs = MODELS[name]()
    optimizer = "adam" if name == "embedding" else "sgd"
    model.compile(optimizer, "mse", jit_compile=jit)
    targets = np.ones((len(inputs), 1), "float32")
    data = tf.data.Dataset.from_tensors((inputs, targets)).repeat(40)
    with tempfile.TemporaryDirectory() as logs:
        model.fit(data, verbose=0, callbacks=[gpukit.Profiler(logs, at_steps=(20,), steps=5)])
        (written,) = Path(logs).glob("**/*.xplane.pb")
        packed = lzma.compress(written.read_bytes(), preset=9)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}-{'jit' if jit else 'graph'}.xplane.pb.xz").write_bytes(packed)


if __name__ == "__main__":
    if sys.argv[1:]:
        capture(sys.argv[1], sys.argv[2] == "jit")
    for each in () if sys.argv[1:] else MODELS:
        for how in ("graph", "jit"):
            subprocess.run([sys.executable, __file__, each, how], check=True)
