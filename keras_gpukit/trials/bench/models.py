"""Three small models of usual kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
