"""What `InputStall` alone costs a step, and whether its memory stays flat over a million steps.

    python benchmarks/watching_cost.py --json benchmarks/results/watching_cost.json

A step of half a millisecond, since a longer one would hide the cost; on one device, and mirrored
over two logical CPUs. Blocks of 96 watched steps and of 96 bare ones alternate within one fit, so
that the machine's own drift, which is far larger than the cost, falls on both; every block of
watched steps holds one reading of the pipeline. Intervals are 95 %, by bootstrap over pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import psutil
import tensorflow as tf
from overhead import median_interval
from results_file import save
from rich.console import Console
from rich.table import Table

import keras_gpukit as gpukit

DEVICES = ("one", "two")
MIB = 2**20
BLOCK = 96


def build(devices: str, steps: int) -> tuple[keras.Model, tf.data.Dataset]:
    strategy = tf.distribute.get_strategy()
    if devices == "two":
        [cpu] = tf.config.list_physical_devices("CPU")
        halves = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, halves)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
    inputs = np.zeros((64, 8), "float32")
    dataset = tf.data.Dataset.from_tensor_slices((inputs, inputs[:, :1])).batch(16).cache()
    return model, dataset.repeat().take(steps).prefetch(4)


class Alternate(keras.callbacks.Callback):
    """Lets a fit run in blocks of steps, now with the watched step function, now with the bare one.

    It stands after the watching callback, which has put its own step function in place by then.
    What runs beside training runs in both: its share is not in the difference.

    Args:
        bare: The model's own step function.
    """

    def __init__(self, bare):
        self._bare = bare
        self.pairs_us: list[tuple[float, float]] = []

    def on_train_begin(self, logs=None):
        self._watched = self.model.train_function
        assert self._watched is not self._bare
        self._block = self._steps = 0
        self._times_us: list[float] = []

    def on_train_batch_begin(self, batch, logs=None):
        if self._steps == 0:
            # Watched, bare, bare, watched: what drifts evenly favours neither.
            self._is_watched = self._block % 4 in (0, 3)
            self.model.train_function = self._watched if self._is_watched else self._bare
            self._began_s = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self._steps += 1
        if self._steps == BLOCK:
            self._times_us.append((time.perf_counter() - self._began_s) / BLOCK * 1e6)
            self._steps = 0
            self._block += 1
            if self._block % 4 == 0:
                first, second, third, fourth = self._times_us[-4:]
                self.pairs_us.append(((first + fourth) / 2, (second + third) / 2))

    def on_train_end(self, logs=None):
        self.model.train_function = self._watched


def cost_of_a_step(devices: str, steps: int) -> dict[str, float]:
    """Alternates blocks of watched and of bare steps within one fit."""
    model, dataset = build(devices, steps)
    model.fit(dataset.take(10), verbose=0)
    watching, alternate = gpukit.InputStall(None), Alternate(model.train_function)
    model.fit(dataset, verbose=0, callbacks=[watching, alternate])
    pairs = alternate.pairs_us[1:]  # the first holds the pipeline's start
    added_us = [watched - bare for watched, bare in pairs]
    bare_us = statistics.median(bare for _, bare in pairs)
    return {
        "step_us": bare_us,
        "pairs": len(pairs),
        "added_us": statistics.median(added_us),
        "added_us_95": median_interval(added_us),
        "added_share": statistics.median(added_us) / bare_us,
    }


def memory_over(steps: int) -> dict[str, float]:
    """Times a step that only fetches, and compares memory after a tenth of them and at the end.

    Returns:
        Growth from the first tenth to the end, in MiB: of the process, and of what Python holds.
    """
    model, _ = build("one", 1)
    callback = gpukit.InputStall(None)
    callback.set_model(model)
    model.train_function = lambda source: source.get_next()
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    iterator = iter(tf.data.Dataset.range(steps).prefetch(4))
    process = psutil.Process()
    for _ in range(steps // 10):
        model.train_function(iterator)
    rss_bytes = process.memory_info().rss
    tracemalloc.start()
    for _ in range(steps - steps // 10):
        model.train_function(iterator)
    python_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    grown = process.memory_info().rss - rss_bytes
    callback.on_train_end()
    return {
        "steps": steps,
        "measured_steps": callback.summary.measured_steps,
        "process_mib": grown / MIB,
        "python_mib": python_bytes / MIB,
    }


def in_own_process(arguments: list[str]) -> dict[str, float]:
    # Devices are settled when TensorFlow starts.
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().split("\n")[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description="What InputStall alone costs.")
    parser.add_argument("--steps", type=int, default=100_000, help="of a fit on one device")
    parser.add_argument("--memory-steps", type=int, default=1_000_000)
    parser.add_argument("--json", help="where the figures are written")
    parser.add_argument(
        "--part", choices=(*DEVICES, "memory"), help="measure one, print it as JSON"
    )
    arguments = parser.parse_args()
    if arguments.part == "memory":
        print(json.dumps(memory_over(arguments.memory_steps)))
        return 0
    if arguments.part:
        print(json.dumps(cost_of_a_step(arguments.part, arguments.steps)))
        return 0

    # A mirrored step takes some four times as long.
    steps = {"one": arguments.steps, "two": arguments.steps // 2}
    costs = {
        each: in_own_process(["--steps", str(steps[each]), "--part", each]) for each in DEVICES
    }
    memory = in_own_process(["--memory-steps", str(arguments.memory_steps), "--part", "memory"])
    table = Table(title=f"InputStall, alternating blocks of {BLOCK} steps")
    for heading in ("devices", "pairs", "step, µs", "added, µs", "95 %", "of a step"):
        table.add_column(heading)
    for devices, cost in costs.items():
        table.add_row(
            devices,
            f"{cost['pairs']}",
            f"{cost['step_us']:.0f}",
            f"{cost['added_us']:.1f}",
            "{:.1f} to {:.1f}".format(*cost["added_us_95"]),
            f"{cost['added_share']:.2%}",
        )
    console = Console(width=110)
    console.print(table)
    console.print(
        f"{memory['steps']:,} steps, growth after the first tenth: process "
        f"{memory['process_mib']:.2f} MiB, Python {memory['python_mib']:.3f} MiB"
    )
    if arguments.json:
        save(
            arguments.json,
            __file__,
            devices=costs,
            memory=memory,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
