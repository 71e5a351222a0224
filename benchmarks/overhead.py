"""What watching costs: interleaved fits of a small model, bare and with each callback.

    python benchmarks/overhead.py --rounds 9 --steps 2000 --json benchmarks/results/overhead.json

Each round runs every variant once, in a shuffled order, and compares it with the bare run of
the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import keras_gpukit as gpukit


def build_model() -> keras.Model:
    """A step of one to two milliseconds on two cores."""
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=False)
    return model


def build_dataset(steps: int) -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(32 * 32, 28, 28, 1)).astype("float32")
    labels = rng.integers(0, 10, size=(32 * 32,))
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(32).cache()
    return dataset.repeat().take(steps).prefetch(4)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--json", help="where the figures are written")
    arguments = parser.parse_args()

    model, dataset = build_model(), build_dataset(arguments.steps)
    folder = tempfile.mkdtemp()
    monitors: list[gpukit.Monitor] = []

    def monitor() -> keras.callbacks.Callback:
        monitors.append(gpukit.Monitor(os.path.join(folder, "monitor"), verbose=0))
        return monitors[-1]

    variants = {
        "bare": list,
        "gpukit.Monitor": lambda: [monitor()],
        "keras TensorBoard(update_freq='batch')": lambda: [
            keras.callbacks.TensorBoard(os.path.join(folder, "keras"), update_freq="batch")
        ],
    }

    def fit(name: str) -> float:
        callbacks = variants[name]()
        began = time.perf_counter()
        model.fit(dataset, callbacks=callbacks, verbose=0)
        return time.perf_counter() - began

    for name in variants:  # everything is loaded and traced once before anything counts
        fit(name)
    monitors.clear()
    times: dict[str, list[float]] = {name: [] for name in variants}
    for round_number in range(arguments.rounds):
        for name in random.Random(round_number).sample(sorted(variants), len(variants)):
            times[name].append(fit(name))

    bare = times["bare"]
    step_ms = statistics.median(bare) / arguments.steps * 1e3
    rows = {}
    for name, durations in times.items():
        ratios = [a / b for a, b in zip(durations, bare, strict=True)]
        added = [(a - b) / arguments.steps * 1e6 for a, b in zip(durations, bare, strict=True)]
        rows[name] = {
            "ratio_median": statistics.median(ratios),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
            "added_us_median": statistics.median(added),
        }
    own_us = statistics.median(m.summary.overhead_s for m in monitors) * 1e6

    table = Table(
        title=f"step of {step_ms:.2f} ms, {arguments.steps} steps, {arguments.rounds} rounds"
    )
    for column in ("callback", "ratio, median", "min", "max", "added µs a step, median"):
        table.add_column(column)
    for name, row in rows.items():
        table.add_row(
            name, *(f"{row[key]:.3f}" for key in list(row)[:3]), f"{row['added_us_median']:.1f}"
        )
    console = Console(width=100)
    console.print(table)
    console.print(f"Monitor.summary.overhead_s: {own_us:.1f} µs a step")
    if arguments.json:
        result = {
            "machine": {
                "cores": os.cpu_count(),
                "machine": platform.machine(),
                "system": platform.system(),
            },
            "versions": {
                "python": platform.python_version(),
                "tensorflow": tf.__version__,
                "keras": keras.__version__,
            },
            "step_ms": step_ms,
            "steps": arguments.steps,
            "rounds": arguments.rounds,
            "variants": rows,
            "overhead_s_reported_us": own_us,
        }
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=2)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
