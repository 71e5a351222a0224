"""Three usual kinds of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

CLASSES = 10
BATCHES = 4


@dataclass(frozen=True)
class Case:
    """A model with its data.

    Attributes:
        build: Returns the model, not compiled.
        batch: Examples in a batch.
        shape: Of an example.
    """

    build: Callable[[], keras.Model]
    batch: int
    shape: tuple[int, ...]

    def compiled(self, **options: Any) -> keras.Model:
        """Returns the model ready for `fit`, always with the same weights."""
        keras.utils.set_random_seed(0)
        model = self.build()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, **options)
        return model

    def data(self) -> tf.data.Dataset:
        """Returns a few batches without end; a model can learn their classes."""
        random = np.random.default_rng(0)
        inputs = random.normal(size=(BATCHES * self.batch, *self.shape)).astype("float32")
        means = inputs.reshape(len(inputs), -1, self.shape[-1]).mean(axis=1)
        classes = (means @ random.normal(size=(self.shape[-1], CLASSES))).argmax(axis=1)
        pairs = tf.data.Dataset.from_tensor_slices((inputs, classes))
        return pairs.batch(self.batch, drop_remainder=True).cache().repeat().prefetch(4)


def dense(width: int, depth: int, features: int) -> keras.Model:
    """Matrix products nearly alone."""
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(depth)]
    return keras.Sequential([keras.Input((features,)), *layers, head()])


def convolutional(channels: int, depth: int, size: int) -> keras.Model:
    """Convolutions with batch normalization and residual connections."""
    inputs = keras.Input((size, size, 3))
    values = keras.layers.Conv2D(channels, 3, padding="same")(inputs)
    for _ in range(depth):
        inner = keras.layers.Conv2D(channels, 3, padding="same", use_bias=False)(values)
        inner = keras.layers.ReLU()(keras.layers.BatchNormalization()(inner))
        values = keras.layers.Add()([values, inner])
    return keras.Model(inputs, head()(keras.layers.GlobalAveragePooling2D()(values)))


def transformer(width: int, depth: int, length: int, features: int) -> keras.Model:
    """Attention, layer normalization and dense layers."""
    inputs = keras.Input((length, features))
    values = keras.layers.Dense(width)(inputs)
    for _ in range(depth):
        inner = keras.layers.LayerNormalization()(values)
        attention = keras.layers.MultiHeadAttention(8, width // 8)
        values = keras.layers.Add()([values, attention(inner, inner)])
        inner = keras.layers.LayerNormalization()(values)
        inner = keras.layers.Dense(4 * width, activation="gelu")(inner)
        values = keras.layers.Add()([values, keras.layers.Dense(width)(inner)])
    return keras.Model(inputs, head()(keras.layers.GlobalAveragePooling1D()(values)))


def head() -> keras.layers.Layer:
    """The last layer, in float32 as Keras' guide to mixed precision advises."""
    return keras.layers.Dense(CLASSES, dtype="float32")


def cases(small: bool) -> dict[str, Case]:
    """Returns the models: steps of milliseconds on a large GPU, or in small on a CPU."""
    if small:
        return {
            "dense": Case(lambda: dense(64, 2, 16), 32, (16,)),
            "convolutional": Case(lambda: convolutional(8, 1, 8), 8, (8, 8, 3)),
            "transformer": Case(lambda: transformer(16, 1, 8, 16), 8, (8, 16)),
        }
    return {
        "dense": Case(lambda: dense(4096, 5, 256), 4096, (256,)),
        "convolutional": Case(lambda: convolutional(128, 8, 32), 256, (32, 32, 3)),
        "transformer": Case(lambda: transformer(512, 4, 256, 64), 32, (256, 64)),
    }
