"""Trainings on a CPU whose allocator has a limit, and what each of them trains on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

EXAMPLES = 50
_OF_LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@dataclass(frozen=True)
class Training:
    """A model, compiled, and inputs and targets of `EXAMPLES` examples that it trains on."""

    build: Callable[[], keras.Model]
    examples: Callable[[np.random.Generator], tuple[Any, Any]]
    keeps_its_class: bool = False  # it is known only here, so that Keras cannot save it

    def data(self, batch_size: int, rows: int) -> tf.data.Dataset:
        """A few examples, repeated; the input takes the same memory in each fit."""
        examples = self.examples(np.random.default_rng(0))
        dataset = tf.data.Dataset.from_tensor_slices(examples).repeat().take(rows)
        # Without autotuning the batches that are ready, which are in the same memory on a CPU, are
        # two.
        options = tf.data.Options()
        options.autotune.enabled = False
        return dataset.batch(batch_size).prefetch(2).with_options(options)


def compiled(inputs: Any, outputs: Any, loss: Any = _OF_LOGITS) -> keras.Model:
    model = keras.Model(inputs, outputs)
    model.compile("adam", loss, jit_compile=False)
    return model


def numbers(*shape: int) -> Callable[[np.random.Generator], tuple[Any, Any]]:
    """Examples of a shape, each of one of ten classes."""

    def examples(rng: np.random.Generator) -> tuple[Any, Any]:
        classes = rng.integers(0, 10, EXAMPLES)
        return rng.normal(size=(EXAMPLES, *shape)).astype("float32"), classes

    return examples


def words(rng: np.random.Generator, known: int) -> Any:
    return rng.integers(0, known, (EXAMPLES, 64)).astype("int32")


def deep_dense() -> keras.Model:
    outputs = inputs = keras.Input((784,))
    for _ in range(12):
        outputs = layers.Dropout(0.2)(layers.Dense(256, "relu")(outputs))
    return compiled(inputs, layers.Dense(10)(outputs))


def wide_dense() -> keras.Model:
    inputs = keras.Input((784,))
    outputs = layers.Dropout(0.2)(layers.Dense(2048, "relu")(inputs))
    return compiled(inputs, layers.Dense(10)(layers.Dense(1024, "relu")(outputs)))


def convolutional() -> keras.Model:
    outputs = inputs = keras.Input((32, 32, 3))
    for filters in (32, 48, 64):
        outputs = normalized(outputs, filters)
    return compiled(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(outputs)))


def normalized(outputs: Any, filters: int) -> Any:
    """A convolution, batch normalization and ReLU."""
    outputs = layers.Conv2D(filters, 3, padding="same", use_bias=False)(outputs)
    return layers.ReLU()(layers.BatchNormalization()(outputs))


def residual() -> keras.Model:
    inputs = keras.Input((32, 32, 3))
    outputs = layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
    for _ in range(3):
        before, outputs = outputs, layers.Conv2D(32, 3, padding="same")(outputs)
        outputs = layers.ReLU()(layers.BatchNormalization()(outputs))
        outputs = layers.Add()([before, layers.Conv2D(32, 3, padding="same")(outputs)])
    return compiled(inputs, layers.Dense(10)(layers.Flatten()(outputs)))


def mobile_net() -> keras.Model:
    model = keras.applications.MobileNetV2(
        weights=None, input_shape=(64, 64, 3), classes=10, alpha=0.5
    )
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return model


def lstm() -> keras.Model:
    inputs = keras.Input((60, 16))
    outputs = layers.LSTM(96)(layers.LSTM(96, return_sequences=True)(inputs))
    return compiled(inputs, layers.Dense(10)(outputs))


def text() -> keras.Model:
    """Convolutions over three, four and five words."""
    inputs = keras.Input((64,), dtype="int32")
    embedded = layers.Embedding(5000, 64)(inputs)
    maxima = [
        layers.GlobalMaxPooling1D()(layers.Conv1D(64, width, activation="relu")(embedded))
        for width in (3, 4, 5)
    ]
    outputs = layers.Dropout(0.5)(layers.Concatenate()(maxima))
    return compiled(inputs, layers.Dense(10)(outputs))


def u_net() -> keras.Model:
    """An encoder, and a decoder that gets what each stage of the encoder found; labels pixels."""
    outputs = inputs = keras.Input((32, 32, 3))
    skips = []
    for filters in (16, 32):
        skips.append(normalized(normalized(outputs, filters), filters))
        outputs = layers.MaxPooling2D()(skips[-1])
    outputs = normalized(normalized(outputs, 64), 64)
    for filters in (32, 16):
        outputs = layers.Conv2DTranspose(filters, 2, strides=2)(outputs)
        outputs = layers.Concatenate()([skips.pop(), outputs])
        outputs = normalized(normalized(outputs, filters), filters)
    return compiled(inputs, layers.Conv2D(10, 1)(outputs))


def pixels(rng: np.random.Generator) -> tuple[Any, Any]:
    """Images, each pixel of one of ten classes."""
    images, _ = numbers(32, 32, 3)(rng)
    return images, rng.integers(0, 10, (EXAMPLES, 32, 32))


def recommender() -> keras.Model:
    """Whether a user takes an item: a table for each, and dense layers."""
    user, item = (keras.Input((), dtype="int32", name=name) for name in ("user", "item"))
    outputs = layers.Concatenate()(
        [layers.Embedding(20_000, 32)(user), layers.Embedding(5_000, 32)(item)]
    )
    for units in (128, 128, 64, 64, 32):
        outputs = layers.Dropout(0.2)(layers.Dense(units, "relu")(outputs))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    return compiled({"user": user, "item": item}, layers.Dense(1)(outputs), loss)


def users_and_items(rng: np.random.Generator) -> tuple[Any, Any]:
    user = rng.integers(0, 20_000, EXAMPLES).astype("int32")
    item = rng.integers(0, 5_000, EXAMPLES).astype("int32")
    return {"user": user, "item": item}, rng.integers(0, 2, (EXAMPLES, 1)).astype("float32")


def autoencoder() -> keras.Model:
    """Images through 32 numbers."""
    outputs = inputs = keras.Input((28, 28, 1))
    for filters in (32, 64):
        outputs = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(outputs)
    outputs = layers.Dense(32)(layers.Flatten()(outputs))
    outputs = layers.Reshape((7, 7, 64))(layers.Dense(7 * 7 * 64, "relu")(outputs))
    for filters in (64, 32):
        transposed = layers.Conv2DTranspose(
            filters, 3, strides=2, padding="same", activation="relu"
        )
        outputs = transposed(outputs)
    return compiled(inputs, layers.Conv2D(1, 3, padding="same")(outputs), "mse")


def images_twice(rng: np.random.Generator) -> tuple[Any, Any]:
    images, _ = numbers(28, 28, 1)(rng)
    return images, images


def attention() -> keras.Model:
    """Two inputs and a `train_step` of its own, by a class that Keras cannot load elsewhere."""

    class Clipped(keras.Model):
        def train_step(self, data):
            inputs, targets = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(inputs, targets, self(inputs, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            clipped = [tf.clip_by_norm(gradient, 1.0) for gradient in gradients]
            self.optimizer.apply_gradients(zip(clipped, self.trainable_variables, strict=True))
            return {"loss": loss}

    tokens = keras.Input((64,), dtype="int32", name="tokens")
    table = keras.Input((16,), name="table")
    seen = layers.Embedding(1000, 64)(tokens)
    for _ in range(2):
        seen = layers.LayerNormalization()(seen + layers.MultiHeadAttention(4, 16)(seen, seen))
        hidden = layers.Dense(128, "gelu")(seen)
        seen = layers.LayerNormalization()(seen + layers.Dense(64)(hidden))
    joined = layers.Concatenate()([layers.GlobalAveragePooling1D()(seen), table])
    model = Clipped({"tokens": tokens, "table": table}, layers.Dense(10)(joined))
    model.compile("adam", _OF_LOGITS, jit_compile=False)
    return model


def words_and_numbers(rng: np.random.Generator) -> tuple[Any, Any]:
    classes = rng.integers(0, 10, EXAMPLES)
    tokens = words(rng, 1000)
    table = rng.normal(size=(EXAMPLES, 16)).astype("float32")
    return {"tokens": tokens, "table": table}, classes


TRAININGS = {
    "deep dense": Training(deep_dense, numbers(784)),
    "convolutional": Training(convolutional, numbers(32, 32, 3)),
    "residual": Training(residual, numbers(32, 32, 3)),
    "attention": Training(attention, words_and_numbers, keeps_its_class=True),
    "U-Net": Training(u_net, pixels),
    "recommender": Training(recommender, users_and_items),
    "MobileNetV2": Training(mobile_net, numbers(64, 64, 3)),
    "LSTM": Training(lstm, numbers(60, 16)),
    "text": Training(text, lambda rng: (words(rng, 5000), rng.integers(0, 10, EXAMPLES))),
    "autoencoder": Training(autoencoder, images_twice),
    "wide dense": Training(wide_dense, numbers(784)),
}
