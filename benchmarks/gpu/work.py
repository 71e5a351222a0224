"""Models whose step computes for a chosen time, on whatever device there is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import tensorflow as tf

SIZES = (256, 512, 1024, 2048, 4096, 8192)
MOST_PRODUCTS = 32
"""In a step: few and large, so that the GPU computes and does not wait for launches."""


class MatrixProducts(keras.layers.Layer):
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


class TinyOperations(keras.layers.Layer):
    """A chain of operations that each take less time than their launch."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        values = inputs
        for _ in range(self._count):
            values = tf.sin(values)
        return inputs + 1e-9 * tf.stop_gradient(values)


def compiled(busy: keras.layers.Layer, features: int, **options: Any) -> keras.Model:
    """Returns a model of that layer and a regression, ready for `fit`."""
    model = keras.Sequential([keras.Input((features,)), busy, keras.layers.Dense(1)])
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
    """Returns the time of a square matrix product, from a chain of them."""
    factor = tf.cast(tf.random.normal((size, size), stddev=size**-0.5), dtype)
    return per_repeat_s(lambda value: tf.matmul(value, factor), factor, repeats)


def per_repeat_s(
    function: Callable[[tf.Tensor], tf.Tensor], value: tf.Tensor, repeats: int, rounds: int = 5
) -> float:
    """Returns the median time of a call, each on the result of the one before."""

    def run() -> float:
        began_s, result = time.perf_counter(), value
        for _ in range(repeats):
            result = function(result)
        tf.reshape(result, [-1])[0].numpy()  # waits for the device
        return (time.perf_counter() - began_s) / repeats

    run()  # loads what it needs
    return statistics.median(run() for _ in range(rounds))
