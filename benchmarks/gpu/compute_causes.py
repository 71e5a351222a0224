"""Models whose step computes badly for a known cause, each with the change that fixes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.gpu.models import Case, convolutional, dense, head, transformer

BFLOAT16 = "mixed_bfloat16"


class WaitsForEachLoss(keras.callbacks.Callback):
    """Reads each step's loss, as a callback that is not `async_safe` makes Keras do."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.loss = logs["loss"]


@dataclass(frozen=True)
class Training:
    """One way to train a model.

    Attributes:
        build: Returns the model, not compiled.
        batch: Examples in a batch.
        shape: Of an example.
        policy: Keras' dtype policy while it is built.
        options: For `compile`.
        optimizer: Returns the optimizer.
        whole_numbers: Examples are whole numbers below this; by default they are floats.
        callbacks: Of the fit.
    """

    build: Callable[[], keras.Model]
    batch: int
    shape: tuple[int, ...]
    policy: str = "float32"
    options: dict[str, Any] = field(default_factory=dict)
    optimizer: Callable[[], Any] = keras.optimizers.SGD
    whole_numbers: int | None = None
    callbacks: Sequence[Callable[[], keras.callbacks.Callback]] = ()

    def compiled(self) -> keras.Model:
        """Returns the model ready for `fit`."""
        keras.utils.set_random_seed(0)
        keras.config.set_dtype_policy(self.policy)
        try:
            model = self.build()
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(self.optimizer(), loss, **{"jit_compile": False, **self.options})
        finally:
            keras.config.set_dtype_policy("float32")
        return model

    def data(self) -> tf.data.Dataset:
        """Returns one batch again and again."""
        random = np.random.default_rng(0)
        shape = (self.batch, *self.shape)
        inputs = (
            random.integers(0, self.whole_numbers, shape)
            if self.whole_numbers
            else random.normal(size=shape).astype("float32")
        )
        classes = random.integers(0, 10, self.batch)
        return tf.data.Dataset.from_tensors((inputs, classes)).cache().repeat().prefetch(4)


def of(case: Case, **more: Any) -> Training:
    return Training(case.build, case.batch, case.shape, **more)


def many_variables(depth: int) -> keras.Model:
    inputs = keras.Input((64,))
    values = inputs
    for _ in range(depth):
        values = keras.layers.Add()([values, keras.layers.Dense(64, activation="tanh")(values)])
    return keras.Model(inputs, head()(values))


def large_embedding(rows: int) -> keras.Model:
    inputs = keras.Input((20,), dtype="int32")
    values = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(rows, 128)(inputs))
    return keras.Model(inputs, head()(keras.layers.Dense(256, activation="relu")(values)))


def alternating(width: int, *policies: str) -> keras.Model:
    layers: list[Any] = [keras.layers.Dense(width, dtype=BFLOAT16)]
    for _ in range(6):
        for policy in policies:
            layers.append(keras.layers.Activation("gelu", dtype=policy))
            layers.append(keras.layers.Dense(width, dtype=BFLOAT16))
    return keras.Sequential([keras.Input((256,)), *layers, head()])


def one_in(dtype: str, width: int) -> keras.Model:
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(3)]
    middle = keras.layers.Dense(width, activation="relu", dtype=dtype, name="precise")
    return keras.Sequential([keras.Input((256,)), *layers, middle, head()])


class Doubled(keras.layers.Layer):
    """Doubles its inputs, in Python on the host or in TensorFlow."""

    def __init__(self, on_host: bool) -> None:
        super().__init__()
        self._on_host = on_host

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        if not self._on_host:
            return 2.0 * inputs
        doubled = tf.numpy_function(lambda values: 2 * values, [inputs], tf.float32)
        return tf.stop_gradient(tf.ensure_shape(doubled, inputs.shape))


def with_doubled(on_host: bool, width: int) -> keras.Model:
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(4)]
    return keras.Sequential([keras.Input((width,)), Doubled(on_host), *layers, head()])


class Heads(keras.layers.Layer):
    """Many small products, one by one or as a single batched one."""

    def __init__(self, count: int, width: int, *, at_once: bool) -> None:
        super().__init__()
        self._count, self._width, self._at_once = count, width, at_once

    def build(self, shape: Any) -> None:
        self.matrices = self.add_weight(shape=(self._count, self._width, self._width))

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        parts = tf.reshape(inputs, (-1, self._count, self._width))
        if self._at_once:
            products = tf.einsum("bcw,cwv->bcv", parts, self.matrices)
        else:
            each = [tf.matmul(parts[:, i], self.matrices[i]) for i in range(self._count)]
            products = tf.stack(each, axis=1)
        return tf.reshape(products, tf.shape(inputs))


def with_heads(count: int, width: int, *, at_once: bool) -> keras.Model:
    heads = Heads(count, width, at_once=at_once)
    return keras.Sequential([keras.Input((count * width,)), heads, head()])


def recurrent(dropout: float, units: int) -> keras.Model:
    layer = keras.layers.LSTM(units, recurrent_dropout=dropout)
    return keras.Sequential([keras.Input((64, units)), layer, head()])


def normalized(layer: Callable[[], keras.layers.Layer], depth: int, size: int) -> keras.Model:
    inputs = keras.Input((size, size, 3))
    values = keras.layers.Conv2D(64, 3, padding="same")(inputs)
    for _ in range(depth):
        values = keras.layers.ReLU()(layer()(keras.layers.Conv2D(64, 3, padding="same")(values)))
    return keras.Model(inputs, head()(keras.layers.GlobalAveragePooling2D()(values)))


def first_channels(first: bool, channels: int, depth: int, size: int) -> keras.Model:
    layout = "channels_first" if first else "channels_last"
    inputs = keras.Input((3, size, size) if first else (size, size, 3))
    values = inputs
    for _ in range(depth):
        values = keras.layers.Conv2D(channels, 3, padding="same", data_format=layout)(values)
        values = keras.layers.BatchNormalization(axis=1 if first else -1)(values)
        values = keras.layers.MaxPooling2D(2, 1, "same", data_format=layout)(values)
    pool = keras.layers.GlobalAveragePooling2D(data_format=layout)
    return keras.Model(inputs, head()(pool(values)))


def resnet(side: int) -> keras.Model:
    return keras.applications.ResNet50(
        weights=None, classes=10, input_shape=(side, side, 3), classifier_activation=None
    )


JIT = {"jit_compile": True}


def causes(small: bool) -> dict[str, tuple[Training, Training | None]]:
    """Returns for each cause how it trains badly, and the same fixed if a change is known."""
    s = small
    images, sequences = (
        (
            Case(lambda: convolutional(8, 1, 8), 8, (8, 8, 3)),
            Case(lambda: transformer(16, 1, 8, 16), 8, (8, 16)),
        )
        if small
        else (
            Case(lambda: convolutional(128, 8, 32), 256, (32, 32, 3)),
            Case(lambda: transformer(512, 4, 256, 64), 32, (256, 64)),
        )
    )
    width, batch, deep = (16, 8, 3) if s else (2048, 4096, 60)
    adam = keras.optimizers.Adam
    classes = Training(lambda: dense(width, 4, 256), batch, (256,), BFLOAT16)

    def wide(units: int) -> Training:
        return Training(lambda: dense(units, 5, units), batch, (units,), BFLOAT16)

    def embedded(optimizer: Any) -> Training:
        rows = 100 if s else 1_000_000
        return Training(
            lambda: large_embedding(rows),
            8 if s else 512,
            (20,),
            optimizer=optimizer,
            whole_numbers=rows,
        )

    def heads(at_once: bool) -> Training:
        count, each = (4, 8) if s else (64, 64)
        return Training(
            lambda: with_heads(count, each, at_once=at_once), 8 if s else 256, (count * each,)
        )

    def channels(first: bool) -> Training:
        size = 8 if s else 64
        return Training(
            lambda: first_channels(first, 8 if s else 64, 2 if s else 6, size),
            8 if s else 128,
            (3, size, size) if first else (size, size, 3),
            BFLOAT16,
        )

    def group(kind: str) -> Training:
        norms = {
            "group": lambda: keras.layers.GroupNormalization(8),
            "batch": keras.layers.BatchNormalization,
        }
        return Training(
            lambda: normalized(norms[kind], 2 if s else 6, 8 if s else 64),
            8 if s else 128,
            (8, 8, 3) if s else (64, 64, 3),
            BFLOAT16,
        )

    def lstm(dropout: float) -> Training:
        units = 8 if s else 256
        return Training(lambda: recurrent(dropout, units), 8 if s else 64, (64, units))

    def doubled(on_host: bool) -> Training:
        return Training(lambda: with_doubled(on_host, width), batch, (width,))

    def precise(dtype: str) -> Training:
        return Training(lambda: one_in(dtype, width), batch, (256,))

    def mixed(*policies: str) -> Training:
        return Training(lambda: alternating(width, *policies), batch, (256,), BFLOAT16)

    def heavy_optimizer(**options: Any) -> Training:
        units = 32 if s else 8192
        return Training(
            lambda: dense(units, 4, 256), 8 if s else 64, (256,), BFLOAT16, options, adam
        )

    def counting(metrics: list[Any]) -> Training:
        options = {"metrics": metrics} if metrics else {}
        return Training(lambda: dense(width // 4, 2, 256), batch, (256,), BFLOAT16, options)

    top = keras.metrics.SparseCategoricalAccuracy
    small_step = partial(Training, lambda: dense(256, 2, 64), 64, (64,))
    layers = partial(Training, lambda: many_variables(deep), 64, (64,), optimizer=adam)
    return {
        "batch normalization": (
            of(images, policy=BFLOAT16),
            of(images, policy=BFLOAT16, options=JIT),
        ),
        "bias gradient": (
            of(sequences, policy=BFLOAT16),
            of(sequences, policy=BFLOAT16, options=JIT),
        ),
        "optimizer": (heavy_optimizer(), heavy_optimizer(**JIT)),
        "many variables": (layers(), layers(options=JIT)),
        "casts": (mixed("float32"), mixed(BFLOAT16)),
        "odd width": (wide(width - 1), wide(width)),
        "float64": (precise("float64"), precise("float32")),
        "embedding": (embedded(adam), embedded(partial(keras.optimizers.SGD, 0.01))),
        "host function": (doubled(True), doubled(False)),
        "small products": (heads(False), heads(True)),
        "recurrent dropout": (lstm(0.1), lstm(0.0)),
        "channels first": (channels(True), channels(False)),
        "group normalization": (group("group"), group("batch")),
        "waits for each loss": (small_step(callbacks=[WaitsForEachLoss]), small_step()),
        "eager": (small_step(options={"run_eagerly": True}), small_step()),
        "metrics": (counting([top(name=f"top_{i}") for i in range(20)]), counting([])),
        "float32": (of(images), of(images, policy=BFLOAT16)),
        "healthy": (classes, None),
        "resnet": (
            Training(
                lambda: resnet(32 if s else 224),
                2 if s else 64,
                (32, 32, 3) if s else (224, 224, 3),
                BFLOAT16,
            ),
            None,
        ),
    }
