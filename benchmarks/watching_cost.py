"""What `InputStall` alone costs a step, and whether its memory stays flat over a million steps.

    python benchmarks/watching_cost.py --json benchmarks/results/watching_cost.json

A step of half a millisecond, since a longer one would hide the cost; on one device, and mirrored
over two logical CPUs. Each round runs every variant once; intervals are 95 %, by bootstrap over
rounds, and how far a second bare run is off shows the machine's own noise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tracemalloc

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import psutil
import tensorflow as tf
from overhead import epoch_s, median_interval
from results_file import save
from rich.console import Console
from rich.table import Table

import keras_gpukit as gpukit

DEVICES = ("one", "two")
MIB = 2**20


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


def cost_of_a_step(devices: str, steps: int, rounds: int) -> dict[str, float]:
    """Interleaves bare epochs with watched ones, each round in an order of its own."""
    model, dataset = build(devices, steps)

    def epoch_us(watched: bool) -> float:
        callbacks = [gpukit.InputStall(None)] if watched else []
        return epoch_s(model, dataset, *callbacks) / steps * 1e6

    variants = {"bare": False, "bare again": False, "watched": True}
    for watched in variants.values():
        epoch_us(watched)
    times_us: dict[str, list[float]] = {name: [] for name in variants}
    for each in range(rounds):
        for name in random.Random(each).sample(sorted(variants), len(variants)):
            times_us[name].append(epoch_us(variants[name]))
    bare = list(map(statistics.fmean, zip(times_us["bare"], times_us["bare again"], strict=True)))
    added_us = [a - b for a, b in zip(times_us["watched"], bare, strict=True)]
    ratios = [a / b for a, b in zip(times_us["watched"], bare, strict=True)]
    noise = [a / b for a, b in zip(times_us["bare again"], times_us["bare"], strict=True)]
    return {
        "step_us": statistics.median(bare),
        "added_us": statistics.median(added_us),
        "added_us_95": median_interval(added_us),
        "ratio": statistics.median(ratios),
        "ratio_95": median_interval(ratios),
        "bare_again_ratio": statistics.median(noise),
        "bare_again_ratio_95": median_interval(noise),
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
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--steps", type=int, default=500)
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
        print(json.dumps(cost_of_a_step(arguments.part, arguments.steps, arguments.rounds)))
        return 0

    asked = ["--rounds", str(arguments.rounds), "--steps", str(arguments.steps)]
    costs = {each: in_own_process([*asked, "--part", each]) for each in DEVICES}
    memory = in_own_process(["--memory-steps", str(arguments.memory_steps), "--part", "memory"])
    table = Table(title=f"InputStall, {arguments.steps} steps an epoch, {arguments.rounds} rounds")
    for heading in (
        "devices",
        "step, µs",
        "added, µs",
        "95 %",
        "ratio",
        "95 %",
        "bare again, 95 %",
    ):
        table.add_column(heading)
    for devices, cost in costs.items():
        table.add_row(
            devices,
            f"{cost['step_us']:.0f}",
            f"{cost['added_us']:.1f}",
            "{:.1f} to {:.1f}".format(*cost["added_us_95"]),
            f"{cost['ratio']:.3f}",
            "{:.3f} to {:.3f}".format(*cost["ratio_95"]),
            "{:.3f} to {:.3f}".format(*cost["bare_again_ratio_95"]),
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
            steps=arguments.steps,
            rounds=arguments.rounds,
            devices=costs,
            memory=memory,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
