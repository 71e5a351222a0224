"""The overhead of each step: interleaved epochs of a small model, bare and with each callback.

    python benchmarks/overhead.py --json benchmarks/results/overhead.json

Each round runs every variant once, in an order of its own, and compares it with the mean of the
round's two bare runs; how far the second of these is off shows what the machine's own noise is. Two
estimates are reported: the median of the ratios with its 95 % interval, and the
ratio of the fastest tenths. Other work on the machine only ever makes a run slower, so the fastest
runs are those that were least disturbed. Keras' own callback, which goes on writing after its run,
has rounds to itself, so that it slows no other variant down.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from harness import argument_parser, in_turns, print_table
from results_file import save

import keras_gpukit as gpukit
from keras_gpukit.tuning.measured_rates import median_interval

BATCH = 32
KERAS = "keras TensorBoard(update_freq='batch')"
FIT_STEPS = 20
EPOCH_STEPS, EPOCHS = 5, 40


def build_model() -> keras.Model:
    """A step of one to two milliseconds on two cores."""
    sizes = (512, 256)
    layers = [keras.layers.Dense(size, activation="relu") for size in sizes]
    model = keras.Sequential([keras.Input((256,)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=False)
    return model


def build_dataset(steps: int) -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(32 * BATCH, 256)).astype("float32")
    targets = rng.integers(0, 10, size=(32 * BATCH,))
    dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(BATCH).cache()
    return dataset.repeat().take(steps).prefetch(4)


def fastest(durations: list[float]) -> float:
    """The tenth of the runs that is least disturbed, as their slowest."""
    return sorted(durations)[len(durations) // 10]


class EpochTime(keras.callbacks.Callback):
    """Times an epoch. The whole of `fit` would not do: it ends when tf.data's autotuning next wakes
    up, which it does at intervals that double."""

    def on_epoch_begin(self, epoch, logs=None):
        self._began_s = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.duration_s = time.perf_counter() - self._began_s


def epoch_s(model: keras.Model, dataset: tf.data.Dataset, *callbacks) -> float:
    clock = EpochTime()
    model.fit(dataset, verbose=0, callbacks=[*callbacks, clock])
    return clock.duration_s


def compare(times: dict[str, list[float]], steps: int, known: dict) -> dict[str, dict[str, float]]:
    pairs = zip(times["bare"], times["bare again"], strict=True)
    bare = [statistics.fmean(pair) for pair in pairs]
    least = fastest(times["bare"] + times["bare again"])
    rows = {}
    for name, durations in times.items():
        if name == "bare" or name in known:
            continue
        ratios = [a / b for a, b in zip(durations, bare, strict=True)]
        low, high = median_interval(ratios)
        rows[name] = {
            "ratio_median": statistics.median(ratios),
            "ratio_median_low": low,
            "ratio_median_high": high,
            "ratio_fastest": fastest(durations) / least,
            "added_us_fastest": (fastest(durations) - least) / steps * 1e6,
        }
    return rows


class EpochTimes(keras.callbacks.Callback):
    """Notes when epochs begin, by the clock and by the training thread's processor time."""

    def on_train_begin(self, logs=None):
        self._began = []

    def on_epoch_begin(self, epoch, logs=None):
        self._began.append((time.perf_counter(), time.thread_time()))

    def median_s(self) -> np.ndarray:
        """Of the epochs after the first, each up to the next one's begin."""
        return np.median(np.diff(self._began[1:], axis=0), axis=0)


def around_steps(model: keras.Model, rounds: int) -> dict[str, Any]:
    """What is added to short fits and short epochs, in turns with bare ones.

    Medians, as a third of bare short epochs stand still until tf.data's autotuning wakes up; in
    milliseconds of wall time and of the training thread's processor time, with the 95 % interval.
    """
    folder = tempfile.mkdtemp()

    def fit(steps: int, epochs: int, *, monitored: bool) -> np.ndarray:
        callbacks = [gpukit.Monitor(folder, verbose=0)] if monitored else []
        times = EpochTimes()
        began_s = np.array([time.perf_counter(), time.thread_time()])
        model.fit(datasets[steps], epochs=epochs, verbose=0, callbacks=[*callbacks, times])
        whole_s = np.array([time.perf_counter(), time.thread_time()]) - began_s
        return whole_s if epochs == 1 else times.median_s()

    lengths = {"fit": (FIT_STEPS, 1), "epoch": (EPOCH_STEPS, EPOCHS)}
    datasets = {steps: build_dataset(steps) for steps, _ in lengths.values()}
    figures: dict[str, Any] = {}
    for name, length in lengths.items():
        variants = {
            monitored: functools.partial(fit, *length, monitored=monitored)
            for monitored in (False, True)
        }
        times = {key: np.array(results) for key, results in in_turns(variants, rounds).items()}
        for added_s, kind in zip((times[True] - times[False]).T, ("wall", "thread"), strict=True):
            figures[f"{name}_{kind}_ms"] = float(np.median(added_s)) * 1e3
            figures[f"{name}_{kind}_ms_95"] = [
                float(end) * 1e3 for end in median_interval(list(added_s))
            ]
    return figures


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()

    model, dataset = build_model(), build_dataset(arguments.steps)
    folder = tempfile.mkdtemp()
    own_s: list[float] = []
    once_s: list[float] = []

    def bare() -> float:
        return epoch_s(model, dataset)

    def monitored() -> float:
        monitor = gpukit.Monitor(os.path.join(folder, "monitor"), verbose=0)
        duration_s = epoch_s(model, dataset, monitor)
        own_s.append(monitor.summary.overhead_s)
        once_s.append(monitor.summary.startup_s)
        return duration_s

    def keras_tensorboard() -> float:
        callback = keras.callbacks.TensorBoard(os.path.join(folder, "keras"), update_freq="batch")
        return epoch_s(model, dataset, callback)

    variants = {
        "bare": bare,
        "bare again": bare,
        "gpukit.Monitor": monitored,
        KERAS: keras_tensorboard,
    }
    for run in variants.values():  # everything is loaded and traced once before anything counts
        run()
    own_s.clear()
    once_s.clear()
    rows, step_ms = {}, []
    for name, rounds in (("gpukit.Monitor", arguments.rounds), (KERAS, arguments.rounds // 7)):
        compared = {variant: variants[variant] for variant in ("bare", "bare again", name)}
        times = in_turns(compared, rounds)
        step_ms += [duration / arguments.steps * 1e3 for duration in times["bare"]]
        rows |= compare(times, arguments.steps, rows)
    result = {
        "steps": arguments.steps,
        "rounds": arguments.rounds,
        "step_ms": statistics.median(step_ms),
        "variants": rows,
        "own_account_us": statistics.median(own_s) * 1e6,
        "once_ms": statistics.median(once_s) * 1e3,
        "around_steps": (around := around_steps(model, arguments.rounds)),
    }

    print_table(
        f"step of {result['step_ms']:.2f} ms, {arguments.steps} steps a fit, "
        f"{arguments.rounds} rounds",
        ("callback", "ratio, median", "95 %", "ratio, fastest tenth", "added µs a step"),
        [
            (
                name,
                f"{row['ratio_median']:.3f}",
                f"{row['ratio_median_low']:.3f} to {row['ratio_median_high']:.3f}",
                f"{row['ratio_fastest']:.3f}",
                f"{row['added_us_fastest']:.1f}",
            )
            for name, row in rows.items()
        ],
        f"Monitor's own account: {result['own_account_us']:.1f} µs a step and "
        f"{result['once_ms']:.0f} ms once",
        f"Added to a fit of {FIT_STEPS} steps: {around['fit_wall_ms']:.1f} ms, of which the "
        f"training thread computes {around['fit_thread_ms']:.1f}",
        f"Added to an epoch of {EPOCH_STEPS} steps: {around['epoch_wall_ms']:.2f} ms, of which the "
        f"training thread computes {around['epoch_thread_ms']:.2f}",
    )
    save(arguments.json, __file__, **result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
