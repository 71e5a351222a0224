"""Models whose step computes for a chosen time, three usual kinds of models, and float formats."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZES = (256, 512, 1024, 2048, 4096, 8192)
MOST_PRODUCTS = 32
"""In a step: few and large, so that the GPU computes and does not wait for launches."""
CLASSES, BATCHES = 10, 4


class MatrixProducts(layers.Layer):
    """Multiplies square matrices in a chain, and returns its inputs nearly unchanged.

    The chain starts from the inputs, so that no product can run before the batch is there.
    """

    def __init__(self, size: int, count: int) -> None:
        super().__init__()
        self.size, self.count = size, count

    def build(self, input_shape: Any) -> None:
        # With this deviation a product is about as large as its factors.
        scale = keras.initializers.RandomNormal(stddev=self.size**-0.5, seed=0)
        self.factor = self.add_weight(
            shape=(self.size, self.size), initializer=scale, trainable=False
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        product = self.factor + 1e-9 * tf.reduce_sum(inputs)
        for _ in range(self.count):
            product = tf.matmul(product, self.factor)
        return inputs + 1e-9 * tf.stop_gradient(tf.reduce_max(product))


class TinyOperations(layers.Layer):
    """A chain of operations that each take less time than their launch."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        values = inputs
        for _ in range(self._count):
            values = tf.sin(values)
        return inputs + 1e-9 * tf.stop_gradient(values)


def compiled(busy: layers.Layer, features: int, **options: Any) -> keras.Model:
    """Returns a model of that layer and a regression, ready for `fit`."""
    model = keras.Sequential([keras.Input((features,)), busy, layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-9), "mse", **{"jit_compile": False, **options})
    return model


def products_for(work_s: float) -> Callable[[], MatrixProducts]:
    """Returns what makes layers of matrix products that take about that long on this device."""
    for size in SIZES:
        one_s = product_s(size)
        if MOST_PRODUCTS * one_s >= work_s:
            break
    return partial(MatrixProducts, size, max(1, round(work_s / one_s)))


def product_s(size: int, dtype: str = "float32", repeats: int = 10) -> float:
    """Returns the median time of a square matrix product, each on the result of the one before."""
    factor = tf.cast(tf.random.normal((size, size), stddev=size**-0.5), dtype)

    def run() -> float:
        started_s, result = time.perf_counter(), factor
        for _ in range(repeats):
            result = tf.matmul(result, factor)
        result[0, 0].numpy()  # waits for the device
        return (time.perf_counter() - started_s) / repeats

    run()  # loads what it needs
    return statistics.median(run() for _ in range(5))


@dataclass(frozen=True)
class Case:
    """A model, not compiled, with its data."""

    build: Callable[[], keras.Model]
    batch: int
    shape: tuple[int, ...]  # of an example

    def compiled(self, **options: Any) -> keras.Model:
        """Returns the model ready for `fit`, always with the same weights."""
        keras.utils.set_random_seed(0)
        model = self.build()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        options = {"jit_compile": False, **options}
        model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, **options)
        return model

    def data(self) -> tf.data.Dataset:
        """Returns a few batches without end."""
        random = np.random.default_rng(0)
        inputs = random.normal(size=(BATCHES * self.batch, *self.shape)).astype("float32")
        classes = random.integers(0, CLASSES, len(inputs))
        pairs = tf.data.Dataset.from_tensor_slices((inputs, classes))
        return pairs.batch(self.batch, drop_remainder=True).cache().repeat().prefetch(4)


def dense(width: int, depth: int, features: int) -> keras.Model:
    """Matrix products nearly alone."""
    stack = [layers.Dense(width, activation="relu") for _ in range(depth)]
    return keras.Sequential([keras.Input((features,)), *stack, head()])


def convolutional(channels: int, depth: int, size: int) -> keras.Model:
    """Convolutions with batch normalization and residual connections."""
    inputs = keras.Input((size, size, 3))
    values = layers.Conv2D(channels, 3, padding="same")(inputs)
    for _ in range(depth):
        inner = layers.Conv2D(channels, 3, padding="same", use_bias=False)(values)
        inner = layers.ReLU()(layers.BatchNormalization()(inner))
        values = layers.Add()([values, inner])
    return keras.Model(inputs, head()(layers.GlobalAveragePooling2D()(values)))


def transformer(width: int, depth: int, length: int, features: int) -> keras.Model:
    """Attention, layer normalization and dense layers."""
    inputs = keras.Input((length, features))
    values = layers.Dense(width)(inputs)
    for _ in range(depth):
        inner = layers.LayerNormalization()(values)
        values = layers.Add()([values, layers.MultiHeadAttention(8, width // 8)(inner, inner)])
        inner = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(values))
        values = layers.Add()([values, layers.Dense(width)(inner)])
    return keras.Model(inputs, head()(layers.GlobalAveragePooling1D()(values)))


def head() -> layers.Layer:
    """The last layer, in float32 as Keras' guide to mixed precision advises."""
    return layers.Dense(CLASSES, dtype="float32")


def usual(name: str, small: bool) -> Case:
    """Returns a model by its kind: steps of milliseconds on a large GPU, or in small on a CPU."""
    if small:
        return {
            "dense": Case(lambda: dense(64, 2, 16), 32, (16,)),
            "convolutional": Case(lambda: convolutional(8, 1, 8), 8, (8, 8, 3)),
            "transformer": Case(lambda: transformer(16, 1, 8, 16), 8, (8, 16)),
        }[name]
    return {
        "dense": Case(lambda: dense(4096, 5, 256), 4096, (256,)),
        "convolutional": Case(lambda: convolutional(128, 8, 32), 256, (32, 32, 3)),
        "transformer": Case(lambda: transformer(512, 4, 256, 64), 32, (256, 64)),
    }[name]


FORMATS = {
    "float32": ("float32", False),
    "TF32": ("float32", True),
    "bfloat16": ("mixed_bfloat16", True),
}
"""Float formats of products: Keras' policy, and whether float32 may be TensorFloat-32."""


@contextmanager
def in_format(name: str) -> Iterator[None]:
    """Sets a format for models built and compiled within, and float32 afterwards."""
    policy, tf32 = FORMATS[name]
    tf.config.experimental.enable_tensor_float_32_execution(tf32)
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy("float32")
        tf.config.experimental.enable_tensor_float_32_execution(True)
