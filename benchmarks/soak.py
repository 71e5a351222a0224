"""Whether `Monitor` stays as light as it began: a million steps of a tiny model.

    python benchmarks/soak.py --json benchmarks/results/soak.json

One `fit` in this process, in epochs of ten thousand steps, with a log folder. At the end of each
epoch a callback notes the time, the memory of this process and the size of the log folder.
`Monitor` writes its own overhead per step every minute, and `run.jsonl` has those of the whole run.

Three bars: memory grows by less than 20 MB after the first epoch, the log folder stays below 60 MB,
and the overhead of the last tenth is not above that of the first (`--json` fails if one does not
hold). Step times of the tenths are shown, and are no bar: other programs take their share.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import psutil
import tensorflow as tf
from harness import argument_parser, print_table
from results_file import save

import keras_gpukit as gpukit

STEPS_PER_EPOCH = 10_000
MB = 10**6
MOST_GROWTH_MB, MOST_LOG_MB = 20, 60
# Noise of the overhead of a minute; what rises with the steps of a run would be many times as much.
MOST_RISE = 1.5


class Notes(keras.callbacks.Callback):
    """Time, memory and size of the log folder at the end of each epoch."""

    def __init__(self, log_dir: Path) -> None:
        super().__init__()
        self.log_dir = log_dir
        self.epochs: list[dict[str, float]] = []
        self.began_s = 0.0

    def on_epoch_begin(self, epoch, logs=None) -> None:
        self.began_s = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None) -> None:
        elapsed_s = time.perf_counter() - self.began_s
        self.epochs.append(
            {
                "step_us": 1e6 * elapsed_s / STEPS_PER_EPOCH,
                "rss_mb": psutil.Process().memory_info().rss / MB,
                "log_mb": size_mb(self.log_dir),
            }
        )


def size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MB


def overheads_us(log_dir: Path) -> list[float]:
    """Overhead per step, in microseconds, of each interval that the record has, in order."""
    with (log_dir / "gpukit" / "run.jsonl").open() as lines:
        records = [json.loads(line) for line in lines if line.startswith('{"kind":"overhead"')]
    steps = [each["record"]["step_s"] for each in records]
    return [1e6 * step_s for step_s in steps if step_s is not None]


def tenths(values: list[float]) -> tuple[float, float]:
    """Medians of the first and the last tenth."""
    count = max(len(values) // 10, 1)
    return float(np.median(values[:count])), float(np.median(values[-count:]))


def soak(epochs: int, log_dir: Path) -> dict[str, float]:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    batch = np.zeros((16, 8), "float32")
    dataset = tf.data.Dataset.from_tensors((batch, batch[:, :1])).repeat()
    notes, monitor = Notes(log_dir), gpukit.Monitor(log_dir, verbose=0)
    began_s = time.perf_counter()
    model.fit(
        dataset,
        epochs=epochs,
        steps_per_epoch=STEPS_PER_EPOCH,
        callbacks=[monitor, notes],
        verbose=0,
    )
    first, last = notes.epochs[0], notes.epochs[-1]
    step_us = tenths([each["step_us"] for each in notes.epochs])
    overhead_us = tenths(overheads_us(log_dir))
    return {
        "steps": epochs * STEPS_PER_EPOCH,
        "lasted_s": time.perf_counter() - began_s,
        "rss_after_first_epoch_mb": first["rss_mb"],
        "rss_at_end_mb": last["rss_mb"],
        "growth_mb": last["rss_mb"] - first["rss_mb"],
        "log_mb": size_mb(log_dir),
        "overhead_first_tenth_us": overhead_us[0],
        "overhead_last_tenth_us": overhead_us[1],
        "overhead_us": 1e6 * monitor.summary.overhead_s,
        "step_first_tenth_us": step_us[0],
        "step_last_tenth_us": step_us[1],
    }


def holds(found: dict[str, float]) -> dict[str, bool]:
    rise = found["overhead_last_tenth_us"] / found["overhead_first_tenth_us"]
    return {
        f"memory grows by less than {MOST_GROWTH_MB} MB": found["growth_mb"] < MOST_GROWTH_MB,
        f"the log folder is below {MOST_LOG_MB} MB": found["log_mb"] < MOST_LOG_MB,
        "the overhead does not rise": rise < MOST_RISE,
    }


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="at least 20,000")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = soak(max(args.steps // STEPS_PER_EPOCH, 2), Path(folder))
    bars = holds(found)
    print_table("A long run", ("", ""), [(name, f"{value:,.1f}") for name, value in found.items()])
    print_table("Bars", ("", ""), [(name, "holds" if ok else "no") for name, ok in bars.items()])
    if args.json:
        save(args.json, __file__, **found, holds=bars)
    sys.exit(not all(bars.values()))


if __name__ == "__main__":
    main()
