"""What a capture costs training, next to TensorFlow's own start and stop on the training thread.

    python benchmarks/capture_cost.py --json benchmarks/results/capture_cost.json

In one fit, blocks of 150 steps come in turn: one in which `Profiler` captures, one in which a
callback calls `tf.profiler.experimental.start` and `stop` around as many steps, and a bare one.
What a capture costs in all is how much longer its block takes than the bare one after it: also
what it costs alongside training, while the profile is written. The medians' intervals are 95 %.
"""

from __future__ import annotations

import inspect
import os
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from harness import argument_parser, print_table
from results_file import save

import keras_gpukit as gpukit
from keras_gpukit.tuning.measuring import median_interval

BLOCK = 150
ROUND = 3 * BLOCK
CALLS = 100_000


def build() -> tuple[keras.Model, tf.data.Dataset]:
    """A model of a few dozen layers: what a profile holds grows with the operations of a step."""
    keras.utils.set_random_seed(0)
    layers = [keras.Input((32, 32, 3)), keras.layers.Conv2D(8, 3, strides=2)]
    for _ in range(10):
        layers += [
            keras.layers.Conv2D(8, 3, padding="same"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
        ]
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False
    )
    images = np.random.default_rng(0).normal(size=(256, 32, 32, 3)).astype("float32")
    labels = np.zeros(256, "int32")
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).cache().repeat()
    return model, dataset.map(lambda x, y: (x * 2.0, y)).batch(16).prefetch(2)


class OnTheTrainingThread(keras.callbacks.Callback):
    """Captures in the second block of each round as one does by hand, and times all blocks."""

    def __init__(self, steps: int, folder: str) -> None:
        super().__init__()
        self._steps, self._folder = steps, folder
        self._step = 0
        self.start_s: list[float] = []
        self.stop_s: list[float] = []
        self.block_s: list[list[float]] = [[], [], []]

    def on_train_batch_begin(self, batch, logs=None):
        # `Profiler` begins at each multiple of a round, with the first step of a block.
        self._step += 1
        now_s = time.perf_counter()
        if self._step % BLOCK == 0:
            if self._step > ROUND:
                self.block_s[(self._step // BLOCK - 1) % 3].append(now_s - self._began_s)
            self._began_s = now_s
        if self._step > ROUND and self._step % ROUND == BLOCK:
            tf.profiler.experimental.start(self._folder)
            self.start_s.append(time.perf_counter() - now_s)
        if self._step > ROUND and self._step % ROUND == BLOCK + self._steps:
            tf.profiler.experimental.stop()
            self.stop_s.append(time.perf_counter() - now_s)


def measure(steps: int, rounds: int) -> dict:
    """Costs of captures of so many steps, in milliseconds."""
    model, dataset = build()
    with tempfile.TemporaryDirectory() as logs, tempfile.TemporaryDirectory() as folder:
        profiler = gpukit.Profiler(
            logs,
            steps=steps,
            at_steps=(),
            every_steps=ROUND,
            max_captures=10_000,
            max_bytes=2**40,
        )
        by_hand = OnTheTrainingThread(steps, folder)
        steps_in_all = (rounds + 1) * ROUND
        model.fit(dataset, steps_per_epoch=steps_in_all, callbacks=[profiler, by_hand], verbose=0)
        records = profiler.summary.captures[:-1]
    assert all(each.path for each in records)
    ours_s, theirs_s, bare_s = by_hand.block_s
    return {
        "steps": steps,
        "rounds": len(bare_s),
        "bare_step_ms": statistics.median(bare_s) / BLOCK * 1e3,
        "profile_bytes": statistics.median(each.profile_bytes for each in records),
        "step_in_a_capture_ms": statistics.median(
            each.duration_s / each.steps * 1e3 for each in records
        ),
        "profiler_held_up_ms": statistics.median(each.held_up_s * 1e3 for each in records),
        "profiler_held_up_worst_ms": max(each.held_up_s * 1e3 for each in records),
        "profiler_in_all_ms": median_interval(differences_ms(ours_s, bare_s)),
        "by_hand_held_up_ms": statistics.median(by_hand.start_s) * 1e3
        + statistics.median(by_hand.stop_s) * 1e3,
        "by_hand_in_all_ms": median_interval(differences_ms(theirs_s, bare_s)),
    }


def differences_ms(blocks_s: list[float], bare_s: list[float]) -> list[float]:
    return [(with_s - without_s) * 1e3 for with_s, without_s in zip(blocks_s, bare_s, strict=True)]


def mark_us() -> float:
    """What marking a step costs where nothing is captured."""
    from pathlib import Path

    from keras_gpukit.callbacks.profiler import Profiler
    from keras_gpukit.profiling.capturing.recorder import Recorder
    from keras_gpukit.profiling.capturing.settings import CaptureSettings

    def nothing(batches):
        return None

    arguments = inspect.signature(Profiler).parameters.values()
    defaults = {each.name: each.default for each in arguments if each.kind is each.KEYWORD_ONLY}
    settings = CaptureSettings(**{**defaults, "at_steps": ()})
    marked = Recorder(Path("none"), settings).wrap(nothing)
    times_s = []
    for function in (nothing, marked) * 5:
        began_s = time.perf_counter()
        for _ in range(CALLS):
            function(None)
        times_s.append(time.perf_counter() - began_s)
    return (min(times_s[1::2]) - min(times_s[::2])) / CALLS * 1e6


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    rows = [measure(steps, options.rounds) for steps in (10, 50)]
    marking_us = mark_us()
    print_table(
        f"marking a step where nothing is captured: {marking_us:.2f} µs",
        list(rows[0]),
        [[shown(value) for value in row.values()] for row in rows],
    )
    if options.json:
        save(options.json, __file__, mark_us=marking_us, captures=rows, rounds=options.rounds)


def shown(value) -> str:
    values = value if isinstance(value, (list, tuple)) else [value]
    return " ".join(f"{each:,.4g}" for each in values)


if __name__ == "__main__":
    main()
