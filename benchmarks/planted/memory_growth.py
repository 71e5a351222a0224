"""Runs whose memory grows by a known amount in each epoch, and runs whose memory only fills up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EXAMPLES, FEATURES, BATCH = 2048, 64, 64
KEPT_BYTES = 4 * 2**20
"""What a leak adds in each epoch."""
SCRIPTS_LIST: list[Any] = []


@dataclass(frozen=True)
class Case:
    """A run.

    Attributes:
        planted_bytes: What each epoch adds; None for a healthy run, or where it is not known.
        where: Whose memory grows.
        leaks: Whether there is a leak.
        cause: A word of the cause that the finding must name; None where none can be seen.
        turn: "epoch", or "fit" where `fit(epochs=1)` is called so often.
    """

    planted_bytes: int | None = None
    where: str | None = None
    leaks: bool = False
    cause: str | None = None
    turn: str = "epoch"


CASES = {
    "a callback keeps tensors": Case(KEPT_BYTES, "this process", True, "Keeper.outputs"),
    "a lambda keeps arrays": Case(KEPT_BYTES, "this process", True, "kept"),
    "a list of the script grows": Case(KEPT_BYTES, "this process", True, "SCRIPTS_LIST"),
    "a train_step fills a list of the script": Case(
        KEPT_BYTES, "this process", True, "SCRIPTS_LIST"
    ),
    "a data function fills a list of the script": Case(
        KEPT_BYTES, "this process", True, "SCRIPTS_LIST"
    ),
    "each fit of one epoch keeps": Case(KEPT_BYTES, "this process", True, "SCRIPTS_LIST", "fit"),
    "compiled again in each epoch": Case(None, "this process", True, "traced again"),
    "arrays": Case(),
    "cache": Case(),
    "cache that all epochs fill": Case(),
    "shuffle": Case(),
    "cache, shuffle, prefetch": Case(),
    "generator": Case(),
    "validation and checkpoints": Case(),
    "eager": Case(),
    "fits of one epoch": Case(turn="fit"),
}


def fit(
    name: str, epochs: int, callbacks: list[Any], folder: str, examples: int = EXAMPLES
) -> None:
    """Trains a case.

    Args:
        name: Of the case.
        epochs: How many.
        callbacks: What watches it.
        folder: Where it may write.
        examples: How many an epoch has.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    class Keeps(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            SCRIPTS_LIST.append(tf.ones(KEPT_BYTES // 4 * BATCH // examples))
            return super().train_step(data)

    in_step = name == "a train_step fills a list of the script"
    model = (Keeps if in_step else keras.Sequential)(
        [keras.Input((FEATURES,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", jit_compile=False, run_eagerly=name == "eager" or in_step)
    x = np.random.default_rng(0).normal(size=(examples, FEATURES)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    slices = tf.data.Dataset.from_tensor_slices((x, y))
    options: dict[str, Any] = {"batch_size": BATCH}
    data: Any = (x, y)

    def kept() -> Any:
        return np.ones(KEPT_BYTES, "uint8")

    class Keeper(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.outputs: list[Any] = []

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.outputs.append(tf.random.uniform((KEPT_BYTES // 4,)))

    class CompilesAgain(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.make_train_function(force=True)

    enclosed: list[Any] = []
    leaks: dict[str, Callable[[], Any]] = {
        "a callback keeps tensors": Keeper,
        "a lambda keeps arrays": lambda: _lambda(enclosed, kept),
        "a list of the script grows": lambda: keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: SCRIPTS_LIST.append(kept())
        ),
        "compiled again in each epoch": CompilesAgain,
    }

    def generated() -> Any:
        if name.startswith("a data function"):
            SCRIPTS_LIST.append(kept())
        return ((x[i], y[i]) for i in range(examples))

    datasets: dict[str, Callable[[], Any]] = {
        "cache": lambda: slices.cache().batch(BATCH),
        "cache that all epochs fill": lambda: (
            slices.map(lambda a, b: (tf.tile(a, [8]), b))  # 2 KiB each, 4 MiB in an epoch
            .repeat(2 * epochs)
            .cache()
            .map(lambda a, b: (a[:FEATURES], b))
            .batch(BATCH)
        ),
        "shuffle": lambda: slices.shuffle(examples // 2).batch(BATCH),
        "cache, shuffle, prefetch": lambda: (
            slices.map(lambda a, b: (a * 2.0, b)).cache().shuffle(examples).batch(BATCH).prefetch(2)
        ),
        "generator": lambda: tf.data.Dataset.from_generator(
            generated, output_signature=slices.element_spec
        ).batch(BATCH),
    }
    datasets["a data function fills a list of the script"] = datasets["generator"]
    if name in datasets:
        data, options = (datasets[name](), None), {}
    if name == "cache that all epochs fill":
        options = {"steps_per_epoch": examples // BATCH}
    if name == "validation and checkpoints":
        options["validation_data"] = (x, y)
        callbacks = [keras.callbacks.ModelCheckpoint(f"{folder}/model.keras"), *callbacks]
    if name in leaks:
        callbacks = [leaks[name](), *callbacks]
    if CASES[name].turn == "epoch":
        model.fit(*data, epochs=epochs, verbose=0, callbacks=callbacks, **options)
        return
    for _ in range(epochs):
        model.fit(*data, epochs=1, verbose=0, callbacks=callbacks, **options)
        if CASES[name].leaks:
            SCRIPTS_LIST.append(kept())


def _lambda(kept: list[Any], make: Callable[[], Any]) -> Any:
    import keras

    return keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: kept.append(make()))
