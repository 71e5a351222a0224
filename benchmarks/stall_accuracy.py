"""How exact the input stall is: what InputStall reports, beside what is known.

    python benchmarks/stall_accuracy.py --json benchmarks/results/stall_accuracy.json

Pipelines and steps sleep for known times inside TensorFlow. What is known comes from a second run
of the same model over the same number of batches that are all there already: the time by which the
slow run's step is longer is time spent waiting. No clock of keras_gpukit is in it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.progress import track
from rich.table import Table
from tensorflow.python.data.experimental.ops.testing import sleep

import keras_gpukit as gpukit

BATCH, FEATURES = 16, 8
BATCHES = 80


def arrays() -> tuple[np.ndarray, np.ndarray]:
    inputs = np.random.default_rng(0).normal(size=(BATCHES * BATCH, FEATURES)).astype("float32")
    return inputs, inputs.sum(axis=1, keepdims=True)


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays()).batch(BATCH)


class Batches(keras.utils.PyDataset):
    def __init__(self, seconds: float, **options) -> None:
        super().__init__(**options)
        self.seconds = seconds
        self.inputs, self.targets = arrays()

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int):
        time.sleep(self.seconds)
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return self.inputs[rows], self.targets[rows]


def generator(seconds: float):
    data = Batches(seconds)
    for index in range(BATCHES):
        yield data[index]


def parallel(seconds: float) -> tf.data.Dataset:
    """Two batches at a time, each taking twice as long."""
    return tf.data.Dataset.range(2).interleave(
        lambda index: batches().shard(2, index).apply(sleep(int(2e6 * seconds))),
        cycle_length=2,
        num_parallel_calls=2,
    )


def slept(seconds: float) -> tf.data.Dataset:
    return batches().apply(sleep(int(1e6 * seconds))) if seconds else batches()


PIPELINES: dict[str, Callable[[float], object]] = {
    "tf.data": slept,
    "tf.data, prefetched": lambda seconds: slept(seconds).prefetch(4),
    "tf.data, interleaved": parallel,
    "PyDataset": lambda seconds: Batches(seconds),
    "PyDataset, 2 workers": lambda seconds: Batches(2 * seconds, workers=2),
    "generator": generator,
}
STEPS: dict[str, dict[str, object]] = {
    "compiled": {"jit_compile": False},
    "jit": {"jit_compile": True},
    "eager": {"jit_compile": False, "run_eagerly": True},
}
# Time to make a batch, time of a step: starved, on the edge, and not held up.
TIMES_S = ((0.02, 0.005), (0.01, 0.005), (0.0, 0.005))


class Sleep(keras.layers.Layer):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def call(self, inputs):
        zero = tf.data.Dataset.from_tensors(0.0).apply(sleep(int(1e6 * self.seconds)))
        return inputs + tf.data.experimental.get_single_element(zero)


def build_model(step_s: float, options: dict[str, object]) -> keras.Model:
    # XLA has no kernel that sleeps, and an eager step takes some milliseconds anyhow.
    layers = [Sleep(step_s)] if options == STEPS["compiled"] else []
    model = keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse", **options)
    return model


class EpochClock(keras.callbacks.Callback):
    """Time from the third batch's begin to the last one's, which a callback can see."""

    def on_epoch_begin(self, epoch, logs=None):
        self.begins = []

    def on_train_batch_begin(self, batch, logs=None):
        self.begins.append(time.perf_counter())

    @property
    def step_s(self) -> float:
        # The first batches are traced and buffered; with the last one nothing is known to end.
        return statistics.fmean(
            b - a for a, b in zip(self.begins[2:-1], self.begins[3:], strict=True)
        )


def step_time(model: keras.Model, data: object, callbacks: list, epochs: int) -> float:
    clock = EpochClock()
    model.fit(data, epochs=epochs, verbose=0, callbacks=[*callbacks, clock])
    return clock.step_s


def measure(pipeline: str, step: str, times_s: tuple[float, float]) -> dict[str, object]:
    make_s, step_s = times_s
    model = build_model(step_s, STEPS[step])
    free_s = step_time(model, batches().cache(), [], 2)
    stall = gpukit.InputStall(None)
    slow_s = step_time(model, PIPELINES[pipeline](make_s), [stall], 1)
    free_s = statistics.fmean((free_s, step_time(model, batches().cache(), [], 2)))
    record = stall.summary
    known = max(0.0, 1 - free_s / slow_s)
    return {
        "pipeline": pipeline,
        "step": step,
        "make_ms": 1e3 * make_s,
        "step_ms": 1e3 * free_s,
        "mechanism": record.mechanism,
        "reported_percent": None if record.stall_fraction is None else 100 * record.stall_fraction,
        "known_percent": 100 * known,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="How exact the input stall is.")
    parser.add_argument("--json", help="where the figures are written")
    arguments = parser.parse_args()
    combinations = list(itertools.product(PIPELINES, STEPS, TIMES_S))
    rows = [measure(*combination) for combination in track(combinations)]
    table = Table(title="input stall, % of the step")
    for heading in ("pipeline", "step", "batch ms", "step ms", "reported", "known", "off by"):
        table.add_column(heading)
    offs = []
    for row in rows:
        off = row["reported_percent"] - row["known_percent"]
        offs.append(abs(off))
        table.add_row(
            row["pipeline"],
            row["step"],
            f"{row['make_ms']:.0f}",
            f"{row['step_ms']:.1f}",
            f"{row['reported_percent']:.1f}",
            f"{row['known_percent']:.1f}",
            f"{off:+.1f}",
        )
    console = Console(width=100)
    console.print(table)
    console.print(
        f"{sum(off <= 2 for off in offs)} of {len(offs)} within 2 points, "
        f"{sum(off <= 5 for off in offs)} within 5, worst {max(offs):.1f}"
    )
    if arguments.json:
        result = {
            "command": "python benchmarks/stall_accuracy.py",
            "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "gpus": 0},
            "versions": {"tensorflow": tf.__version__, "keras": keras.__version__},
            "rows": rows,
        }
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=2)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
