"""Training runs in which a known cause takes a known part of the time, and the same without it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from planted.slow_stages import sleep_then

FEATURES = 256
BATCH = 128
STEPS = 60
EPOCHS = 5
SLOW_S = 0.03

Fit = Callable[[Sequence[keras.callbacks.Callback]], None]


@dataclass(frozen=True)
class Cause:
    """A run with a cause, and with some callbacks in addition."""

    planted: Fit
    removed: Fit  # the same without the cause; of two causes, without the larger one
    codes: tuple[str, ...]  # of findings that name the cause; empty for a healthy run


# Models and data.


def model(width: int = 1024, layers: int = 2, **options: Any) -> keras.Model:
    dense = [keras.layers.Dense(width, activation="relu") for _ in range(layers)]
    made = keras.Sequential([keras.Input((FEATURES,)), *dense, keras.layers.Dense(1)])
    made.compile("adam", "mse", **options)
    return made


def arrays(steps: int = STEPS, batch: int = BATCH) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    rows = random.random((steps * batch, FEATURES), dtype="float32")
    return rows, rows[:, :1]


def batches(steps: int = STEPS, batch: int = BATCH) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays(steps, batch)).batch(batch)


def ready() -> tf.data.Dataset:
    return batches().prefetch(2)


def sleeping(seconds: float) -> Callable[..., Any]:
    def slow_stage(rows: tf.Tensor, targets: tf.Tensor) -> Any:
        return sleep_then(rows, seconds), targets

    return slow_stage


def busy(rows: tf.Tensor, targets: tf.Tensor) -> Any:
    """A stage that computes on one core."""
    numbers = tf.math.floormod(tf.range(300_000, dtype=tf.float32) * 7919.0, 104729.0)
    return rows + 0.0 * tf.sort(numbers + rows[0, 0])[0], targets


def sleeping_late(rows: tf.Tensor, targets: tf.Tensor, number: tf.Tensor) -> Any:
    """A stage that gets slow after half of the run."""
    late = number >= STEPS * EPOCHS // 2
    slow, quick = (lambda: sleep_then(rows, 2 * SLOW_S)), (lambda: rows)
    return tf.cond(late, slow, quick), targets


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches that are made in Python, a while each."""

    def __init__(self, seconds: float) -> None:
        super().__init__(workers=1)
        self.seconds = seconds
        self.rows, self.targets = arrays(1)

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds)
        return self.rows, self.targets


def generated(work: int) -> Iterator[Any]:
    """Batches by a generator that computes in Python."""
    rows, targets = arrays(1)
    for _ in range(STEPS):
        sum(number * number for number in range(work))
        yield rows, targets


def opened_slowly(seconds: float) -> tf.data.Dataset:
    """Batches the first of which takes long in each epoch."""

    def at_first(number: tf.Tensor, rows: tf.Tensor, targets: tf.Tensor) -> Any:
        opened = tf.cond(number == 0, lambda: sleep_then(rows, seconds), lambda: rows)
        return opened, targets

    numbered = tf.data.Dataset.zip((tf.data.Dataset.range(STEPS), batches()))
    return numbered.map(lambda number, pair: at_first(number, *pair)).prefetch(2)


# Callbacks.


class Sleeps(keras.callbacks.Callback):  # type: ignore[misc]
    """Takes a while after each step or epoch."""

    def __init__(self, *, batch_s: float = 0.0, epoch_s: float = 0.0) -> None:
        super().__init__()
        self.batch_s, self.epoch_s = batch_s, epoch_s

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.batch_s:
            time.sleep(self.batch_s)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        time.sleep(self.epoch_s)


class MakesAnew(keras.callbacks.Callback):  # type: ignore[misc]
    """Has the step function made again in each epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.model.make_train_function(force=True)


class Saves(keras.callbacks.ModelCheckpoint):  # type: ignore[misc]
    """Saves the model to a folder that is then removed."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        super().__init__(os.path.join(self.folder.name, "{epoch}.keras"))


@contextmanager
def neighbours(number: int) -> Iterator[None]:
    """Other processes that keep a core each busy."""
    # A shell starts each and ends: a run counts its own children as its own.
    command = f"{shlex.quote(sys.executable)} -c 'while True: pass' >/dev/null & echo $!"
    pids = [int(subprocess.check_output(["sh", "-c", command])) for _ in range(number)]
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


# Runs.


def fit(
    data: Callable[[], Any],
    made: Callable[[], keras.Model] = model,
    *,
    epochs: int = EPOCHS,
    more: Callable[[], Sequence[keras.callbacks.Callback]] = tuple,
    beside: Callable[[], Any] = lambda: neighbours(0),
    **options: Any,
) -> Fit:
    """Returns a run: everything in it is made again for each fit."""

    def run(callbacks: Sequence[keras.callbacks.Callback]) -> None:
        called = {name: value() if callable(value) else value for name, value in options.items()}
        given, trained = data(), made()
        with beside():
            pair = given if isinstance(given, tuple) else (given,)
            trained.fit(*pair, epochs=epochs, verbose=0, callbacks=[*callbacks, *more()], **called)

    return run


def from_stage(stage: Callable[..., Any], parallel: int | None = None) -> Callable[[], Any]:
    return lambda: batches().map(stage, num_parallel_calls=parallel).prefetch(2)


def late(stage: Callable[..., Any] | None) -> Callable[[], Any]:
    def data() -> Any:
        numbered = tf.data.Dataset.zip((batches().repeat(EPOCHS), tf.data.Dataset.range(10**6)))
        flat = numbered.map(lambda pair, number: (*pair, number))
        keep = stage or (lambda rows, targets, number: (rows, targets))
        return flat.map(keep).prefetch(2)

    return data


def tiny(steps_per_execution: int) -> Fit:
    return fit(
        lambda: batches(12000, 4).cache().prefetch(2),
        lambda: model(8, 1, steps_per_execution=steps_per_execution),
        epochs=1,
    )


def validated(seconds: float, steps: int = STEPS) -> dict[str, Any]:
    return {"validation_data": lambda: batches(steps).map(sleeping(seconds)).prefetch(2)}


quick = fit(ready)
GENERATOR_SIGNATURE = (
    tf.TensorSpec((BATCH, FEATURES), tf.float32),
    tf.TensorSpec((BATCH, 1), tf.float32),
)


def from_generator(work: int) -> Callable[[], Any]:
    return lambda: tf.data.Dataset.from_generator(
        lambda: generated(work), output_signature=GENERATOR_SIGNATURE
    ).prefetch(2)


def shuffled(seconds: float) -> Callable[[], Any]:
    """Elements that take a while each, and a buffer that is filled with them in each epoch."""

    def data() -> Any:
        slow = batches(STEPS).map(sleeping(seconds))
        return slow.shuffle(STEPS, reshuffle_each_iteration=True).prefetch(2)

    return data


INPUT = ("input-bound",)
CORES = (*INPUT, "cpu-contention")
PYTHON = (*INPUT, "gil-contention")
STARTS = ("slow-epoch-start",)
CALLBACKS = ("slow-callbacks",)
SLOWER = ("throughput-drops", "input-slows-down", "input-bound")


def beside_neighbours(number: int) -> Cause:
    """Other processes: no cause within the run, which is context and no finding."""
    quiet = fit(ready, epochs=2 * EPOCHS)
    return Cause(fit(ready, epochs=2 * EPOCHS, beside=lambda: neighbours(number)), quiet, ())


CAUSES: dict[str, Cause] = {
    "serial stage that sleeps": Cause(fit(from_stage(sleeping(SLOW_S))), quick, INPUT),
    "parallel stage that sleeps": Cause(
        fit(from_stage(sleeping(3 * SLOW_S), parallel=2)), quick, INPUT
    ),
    "stage that computes": Cause(fit(from_stage(busy)), quick, CORES),
    "parallel stage that computes": Cause(fit(from_stage(busy, parallel=2)), quick, CORES),
    "stage that computes ahead": Cause(
        fit(from_stage(busy), lambda: model(2048)), fit(ready, lambda: model(2048)), CORES
    ),
    "PyDataset that sleeps": Cause(
        fit(lambda: Batches(2 * SLOW_S)), fit(lambda: Batches(0.0)), INPUT
    ),
    "generator that computes": Cause(fit(from_generator(400_000)), fit(from_generator(0)), PYTHON),
    "stage that gets slow halfway": Cause(
        fit(late(sleeping_late), steps_per_epoch=STEPS),
        fit(late(None), steps_per_epoch=STEPS),
        SLOWER,
    ),
    "callback that gets slow halfway": Cause(
        fit(ready, more=lambda: [SleepsLate()]), quick, (*SLOWER, *CALLBACKS)
    ),
    "slow first batch": Cause(
        fit(lambda: opened_slowly(1.5)), fit(lambda: opened_slowly(0.0)), STARTS
    ),
    "shuffle buffer of slow elements": Cause(
        fit(shuffled(SLOW_S)), fit(shuffled(0.0)), (*STARTS, *INPUT)
    ),
    "validation that waits": Cause(
        fit(ready, **validated(SLOW_S)), fit(ready, **validated(0.0)), ("long-validation",)
    ),
    "large validation": Cause(fit(ready, **validated(0.0, 8 * STEPS)), quick, ("long-validation",)),
    "callback at each step": Cause(
        fit(ready, more=lambda: [Sleeps(batch_s=SLOW_S / 2)]), quick, CALLBACKS
    ),
    "callback at each epoch": Cause(
        fit(ready, more=lambda: [Sleeps(epoch_s=1.0)]), quick, CALLBACKS
    ),
    "checkpoint each epoch": Cause(
        fit(
            lambda: batches(4).prefetch(2), lambda: model(3072, 3), epochs=8, more=lambda: [Saves()]
        ),
        fit(lambda: batches(4).prefetch(2), lambda: model(3072, 3), epochs=8),
        CALLBACKS,
    ),
    "step function made in each epoch": Cause(
        fit(
            lambda: batches(20).prefetch(2),
            lambda: model(128, 12),
            epochs=8,
            more=lambda: [MakesAnew()],
        ),
        fit(lambda: batches(20).prefetch(2), lambda: model(128, 12), epochs=8),
        ("retracing",),
    ),
    "tiny steps": Cause(tiny(1), tiny(16), ("tiny-steps",)),
    "slow stage, and a callback": Cause(
        fit(from_stage(sleeping(SLOW_S)), more=lambda: [Sleeps(epoch_s=0.3)]),
        fit(ready, more=lambda: [Sleeps(epoch_s=0.3)]),
        INPUT,
    ),
    "slow callback, and a stage": Cause(
        fit(from_stage(sleeping(0.5 * SLOW_S)), more=lambda: [Sleeps(epoch_s=1.5)]),
        fit(from_stage(sleeping(0.5 * SLOW_S))),
        CALLBACKS,
    ),
    "slow validation, and a first batch": Cause(
        fit(lambda: opened_slowly(0.4), **validated(SLOW_S)),
        fit(lambda: opened_slowly(0.4), **validated(0.0)),
        ("long-validation",),
    ),
}


class SleepsLate(Sleeps):
    """Takes a while after each step from half of the run on."""

    def __init__(self) -> None:
        super().__init__(batch_s=SLOW_S)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if int(self.model.optimizer.iterations) > STEPS * EPOCHS // 2:
            super().on_train_batch_end(batch, logs)


def healthy(*args: Any, **options: Any) -> Cause:
    run = fit(*args, **options)
    return Cause(run, run, ())


def pictures() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.random((64 * 40, 32, 32, 3), dtype="float32"), random.random(64 * 40)


def convolutional() -> keras.Model:
    layers = [keras.layers.Conv2D(16, 3, activation="relu") for _ in range(3)]
    head = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
    made = keras.Sequential([keras.Input((32, 32, 3)), *layers, *head])
    made.compile("adam", "mse")
    return made


CAUSES |= {
    "healthy: two busy neighbours": beside_neighbours(2),
    "healthy: four busy neighbours": beside_neighbours(4),
    "healthy: arrays": healthy(lambda: arrays(3 * STEPS), batch_size=BATCH, epochs=4),
    "healthy: prefetched pipeline": healthy(lambda: batches(3 * STEPS).prefetch(2), epochs=4),
    "healthy: cached and mapped": healthy(
        lambda: batches(3 * STEPS).map(sleeping(0.001), num_parallel_calls=2).cache().prefetch(2),
        epochs=4,
    ),
    "healthy: a short validation": healthy(
        lambda: batches(3 * STEPS).prefetch(2), epochs=4, **validated(0.0, STEPS // 2)
    ),
    "healthy: convolutions": healthy(pictures, convolutional, batch_size=64, epochs=3),
    "healthy: several steps per execution": healthy(
        lambda: batches(3 * STEPS).prefetch(2),
        lambda: model(steps_per_execution=10),
        epochs=4,
    ),
}
