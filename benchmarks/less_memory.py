"""What gradient accumulation and rematerialization save in memory, and cost in time.

    python benchmarks/less_memory.py --json benchmarks/results/less_memory.json

Each way of training runs in a process of its own with TensorFlow's BFC allocator, the one of GPUs,
on the CPU. Memory is the peak during steps, less what weights and slots hold before. Time is the
median step of rounds in which the ways take turns, against plain training in the same round.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time

from harness import argument_parser, in_own_process, in_turns, print_table
from results_file import save

BATCH, WIDTH, BLOCKS = 64, 24, 16
WAYS = ("plain", "accumulation", "rematerialization", "both")
ENVIRONMENT = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_ENABLE_ONEDNN_OPTS": "0"}


def build():
    import keras

    keras.utils.set_random_seed(0)
    layers = [keras.Input((32, 32, 3)), keras.layers.Conv2D(WIDTH, 3, padding="same")]
    for _ in range(BLOCKS):
        layers += [
            keras.layers.Conv2D(WIDTH, 3, padding="same", use_bias=False),
            keras.layers.LayerNormalization(),
            keras.layers.ReLU(),
            keras.layers.Dropout(0.1),
        ]
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=False)
    return model


def measure(way: str, steps: int) -> dict[str, float]:
    """Trains a few steps, and returns the peak of memory and the median step time."""
    import numpy as np
    import tensorflow as tf

    import keras_gpukit as gpukit

    model = build()
    images = np.random.default_rng(0).normal(size=(BATCH, 32, 32, 3)).astype("float32")
    labels = np.zeros(BATCH, "int32")
    times = []
    with contextlib.ExitStack() as stack:
        if way in ("rematerialization", "both"):
            stack.enter_context(gpukit.rematerialize(model))
        if way in ("accumulation", "both"):
            stack.enter_context(gpukit.accumulate_gradients(model, micro_batches=4))
        model.train_on_batch(images, labels)
        held = tf.config.experimental.get_memory_info("CPU:0")["current"]
        tf.config.experimental.reset_memory_stats("CPU:0")
        for _ in range(steps):
            began = time.perf_counter()
            model.train_on_batch(images, labels)
            times.append(time.perf_counter() - began)
    peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    return {"peak_bytes": peak - held, "step_s": statistics.median(times)}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--way", choices=WAYS, help="measure one here, and print it as JSON")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.steps)))
        return

    def trial(way):
        arguments = ["--way", way, "--steps", str(options.steps)]
        return lambda: in_own_process(__file__, arguments, environment=ENVIRONMENT)[0]

    rounds = in_turns({way: trial(way) for way in WAYS}, options.rounds)
    ways = {}
    for way, measured in rounds.items():
        pairs = list(zip(measured, rounds["plain"], strict=True))
        peaks, ratios, times = (
            [each["peak_bytes"] / 2**20 for each in measured],
            [each["peak_bytes"] / plain["peak_bytes"] for each, plain in pairs],
            [each["step_s"] / plain["step_s"] for each, plain in pairs],
        )
        medians = map(statistics.median, (peaks, ratios, times))
        names = ("peak_mib", "memory_ratio", "time_ratio")
        ways[way] = dict(zip(names, medians, strict=True))
    rows = [
        (way, f"{of['peak_mib']:.0f} MiB", f"{of['memory_ratio']:.2f}", f"{of['time_ratio']:.2f}")
        for way, of in ways.items()
    ]
    print_table("Memory and time", ("way", "peak", "memory ratio", "time ratio"), rows)
    if options.json:
        save(options.json, __file__, rounds=options.rounds, steps=options.steps, ways=ways)


if __name__ == "__main__":
    sys.exit(main())
