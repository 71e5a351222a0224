"""What `InputStall` alone costs a step, and whether its memory stays flat over a million steps.

    python benchmarks/watching_cost.py --json benchmarks/results/watching_cost.json

A step of half a millisecond to one, since a longer one would hide the cost; on one device, and
mirrored over two logical CPUs. The process keeps to one core, where nothing that watching does can
hide alongside the step.

Of every two steps of a fit one is watched (`watched_steps.py`), and the median of their differences
is what each step costs. What comes only now and then, a reading of the pipeline and the end of a
window, is timed in a second fit that is watched throughout: by how much the step that holds it, and
the three after it, take longer than the steps before. The processor time of other threads is added
as if it were training's. Intervals are 95 %.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import tracemalloc

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import psutil
import tensorflow as tf
from harness import argument_parser, in_own_process, print_table
from results_file import save
from watched_steps import Turns, added_by_each_step, added_by_readings

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


def cost_of_a_step(devices: str, steps: int) -> dict[str, float]:
    """Watches half of a fit's steps in turns, then all steps of another."""
    model, dataset = build(devices, steps)
    model.fit(dataset.take(10), verbose=0)
    lots = np.random.default_rng(0).integers(0, 2, steps // 2 + 1).astype(bool)
    in_turns = np.stack([lots, ~lots], axis=1).ravel()
    with tempfile.TemporaryDirectory() as log_dir:
        turns, throughout = Turns(log_dir, in_turns), Turns(log_dir, None)
        for each in (turns, throughout):
            model.fit(dataset, verbose=0, callbacks=[each])
    each_us, bare_us = added_by_each_step(turns)
    plain_us, ends_us, spread_over = added_by_readings(throughout)

    def parts(each_us, plain_us, ends_us) -> np.ndarray:
        each, plain, ends = (np.median(sample, axis=0) for sample in (each_us, plain_us, ends_us))
        a_reading = plain.sum() * len(plain_us) / spread_over
        an_end = ends.sum() * len(ends_us) / spread_over
        return np.array([each, a_reading, an_end, throughout.beside_us])

    samples = (each_us, plain_us, ends_us)
    random = np.random.default_rng(0)
    drawn = ([random.choice(each, len(each)) for each in samples] for _ in range(1000))
    interval = np.quantile([parts(*each).sum() for each in drawn], [0.025, 0.975])
    each, reading, end, beside = by_part = parts(*samples)
    added_us = by_part.sum()
    return {
        "step_us": bare_us,
        "steps": steps,
        "added_us": added_us,
        "added_us_95": interval.tolist(),
        "by_each_step_us": each,
        "by_readings_us": reading,
        "by_ends_of_windows_us": end,
        "by_threads_beside_us": beside,
        "added_share": added_us / bare_us,
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


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="of a fit on one device")
    parser.add_argument("--memory-steps", type=int, default=1_000_000)
    parser.add_argument(
        "--part", choices=(*DEVICES, "memory"), help="measure one, print it as JSON"
    )
    arguments = parser.parse_args()
    if arguments.part == "memory":
        print(json.dumps(memory_over(arguments.memory_steps)))
        return 0
    if arguments.part:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
        print(json.dumps(cost_of_a_step(arguments.part, arguments.steps)))
        return 0

    # A mirrored step takes some three times as long.
    steps = {"one": arguments.steps, "two": arguments.steps // 2}
    costs = {
        each: in_own_process(__file__, ["--steps", str(steps[each]), "--part", each])[-1]
        for each in DEVICES
    }
    [memory] = in_own_process(
        __file__, ["--memory-steps", str(arguments.memory_steps), "--part", "memory"]
    )
    parts = ("each step", "readings", "ends of windows", "other threads")
    print_table(
        "What InputStall adds to a step",
        ("devices", "step, µs", "added, µs", "95 %", "of a step", *parts),
        [
            (
                devices,
                f"{cost['step_us']:.0f}",
                f"{cost['added_us']:.1f}",
                "{:.1f} to {:.1f}".format(*cost["added_us_95"]),
                f"{cost['added_share']:.2%}",
                *(f"{cost[f'by_{part}_us'.replace(' ', '_')]:.2f}" for part in parts),
            )
            for devices, cost in costs.items()
        ],
        f"{memory['steps']:,} steps, growth after the first tenth: process "
        f"{memory['process_mib']:.2f} MiB, Python {memory['python_mib']:.3f} MiB",
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
