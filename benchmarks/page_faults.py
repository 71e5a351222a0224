"""Page faults of trainings whose freed memory goes back to the kernel, and what keeping it saves.

    python benchmarks/page_faults.py --json benchmarks/results/page_faults.json

Each training runs in a process of its own, with glibc's defaults and with other settings, in turns.
What is saved is judged by a step's processor time, which other processes on the machine hardly
change. It must lie in the range that the finding of the run just before it promises.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
from typing import Any

from harness import argument_parser, in_own_process, in_turns, print_table
from results_file import save, saved_rows

from keras_gpukit.rules.compute.host_cpu import POOL

FIT_S = 8.0
CODE = "page-faults"
DEFAULT, ADVISED, HIGH = "defaults", "as advised", "high thresholds"
SETTINGS: dict[str, dict[str, str]] = {
    DEFAULT: {},
    ADVISED: dict([POOL.split("=")]),
    HIGH: dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), "1000000000"),
    "glibc keeps all": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": "1000000000"},
}
TRAININGS = ("activations", "large activations", "tf.data", "PyDataset", "dense")
IMAGES = (64, 224, 224, 3)
"""A batch of 38 MB."""


def main() -> None:
    """Runs each training with each setting, in turns."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="trainings to run; others are kept from --json")
    parser.add_argument(
        "--settings", nargs="*", default=list(SETTINGS), help="settings to run with"
    )
    options = parser.parse_args()
    rows: dict[str, Any] = saved_rows(options.json, "trainings") if options.only else {}
    for name in options.only or TRAININGS:
        variants = {each: functools.partial(run, name, each) for each in options.settings}
        rows[name] = judged(in_turns(variants, options.rounds))
        if options.json:
            findings = [each for row in rows.values() for each in row["savings"]]
            save(
                options.json,
                __file__,
                findings=len(findings),
                kept=sum(each["is_kept"] for each in findings),
                trainings=rows,
            )
    print_table(
        "Page faults",
        ("training", "setting", "faults a step", "user", "kernel", "kernel time per fault", "RSS"),
        (
            _shown(name, each, row["runs"][each])
            for name, row in rows.items()
            for each in row["runs"]
        ),
    )


def run(name: str, setting: str) -> dict[str, Any]:
    """Runs one training in a process of its own."""
    (row,) = in_own_process(__file__, ["--train", name], 300, SETTINGS[setting], quiet=True)
    print(name, setting, json.dumps(row), file=sys.stderr, flush=True)
    return row


def judged(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Compares what was promised with the processor time that the advised setting saved."""
    advised_ms = statistics.median(
        each["user_ms"] + each["kernel_ms"] for each in runs.get(ADVISED, runs[DEFAULT])
    )
    savings = []
    for each in runs[DEFAULT]:
        if each["promised"] is not None:
            low, high = each["promised"]
            saved = 1 - advised_ms / (each["user_ms"] + each["kernel_ms"])
            savings.append(
                {"low": low, "saved": saved, "high": high, "is_kept": low <= saved <= high}
            )
    return {"savings": savings, "runs": runs}


def train(name: str) -> None:
    """Trains for some seconds, and prints what `Monitor` read."""
    import keras
    from planted import compared_run

    import keras_gpukit as gpukit
    from keras_gpukit.rules.savings import time_of_steps_s
    from keras_gpukit.sensors.host import process_bytes

    compared_run.FIT_S = FIT_S
    keras.utils.set_random_seed(0)
    model, data = training(name)
    model.compile("sgd", "mse", jit_compile=False)
    monitor = gpukit.Monitor(None, verbose=0, capture=False, predict_memory=False)
    callbacks = [compared_run.EndAfter(), monitor]
    model.fit(data, steps_per_epoch=1_000_000, verbose=0, callbacks=callbacks)
    summary = monitor.summary
    host, step_ms = summary.host, 1e3 * summary.step_time_s
    found = next((each for each in summary.findings if each.code == CODE), None)
    saving = found.saving if found else None
    steps_s = time_of_steps_s(summary)
    row = {
        "step_ms": step_ms,
        "user_ms": step_ms * host.user_cores,
        "kernel_ms": step_ms * host.kernel_cores,
        "page_faults_per_step": summary.page_faults_per_step,
        "process_mb": process_bytes() / 1e6,
        "found": found.title if found else None,
        "promised": [each / steps_s for each in (saving.low_s, saving.high_s)] if saving else None,
    }
    print(json.dumps(row), flush=True)
    os._exit(0)  # TensorFlow may wait for a Python generator as Python ends


def training(name: str) -> tuple[Any, Any]:
    """Returns a model and its data."""
    import keras
    import numpy as np
    import tensorflow as tf
    from planted.compared_run import in_memory
    from planted.compared_run import training as compared

    layers = keras.layers

    if name in ("activations", "dense"):
        return compared({"activations": "convolutional"}.get(name, name), 10)[:2]
    if name == "large activations":  # of 67 MB each
        shape, ends = (128, 128, 16), [layers.GlobalAveragePooling2D(), layers.Dense(1)]
        inner = [layers.Dense(16, activation="relu") for _ in range(2)]
        return keras.Sequential([keras.Input(shape), *inner, *ends]), in_memory(shape)
    few = [layers.MaxPooling2D(1, 16), layers.Flatten(), layers.Dense(1)]
    pixels = np.random.default_rng(0).integers(0, 255, IMAGES, dtype="uint8")
    targets = np.zeros((IMAGES[0], 1), "float32")

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, index: int) -> Any:
            return pixels.astype("float32") / 255, targets

    def scaled(image: Any, target: Any) -> Any:
        return tf.cast(image, tf.float32) / 255, target

    data = Batches(workers=1)
    if name == "tf.data":
        rows = tf.data.Dataset.from_tensor_slices((pixels, targets)).repeat()
        data = rows.map(scaled, num_parallel_calls=tf.data.AUTOTUNE).batch(IMAGES[0]).prefetch(2)
    return keras.Sequential([keras.Input(IMAGES[1:]), *few]), data


def _shown(name: str, setting: str, runs: list[dict[str, Any]]) -> tuple[str, ...]:
    faults, user_ms, kernel_ms, process_mb = (
        statistics.median(each[key] for each in runs)
        for key in ("page_faults_per_step", "user_ms", "kernel_ms", "process_mb")
    )
    of_fault = f"{1e3 * kernel_ms / faults:.1f} µs" if faults else ""
    return (
        *(name, setting, f"{faults:,.0f}", f"{user_ms:.0f} ms", f"{kernel_ms:.1f} ms"),
        *(of_fault, f"{process_mb:.0f} MB"),
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2])
    else:
        main()
