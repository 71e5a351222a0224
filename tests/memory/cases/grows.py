"""Trains runs whose memory grows or fills up, and prints what is found. Argument: a folder."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import keras
import tensorflow as tf
from planted.memory_growth import fit

import keras_gpukit as gpukit

EPOCHS = 16
EXAMPLES = 256
NAMES = (
    "a callback keeps tensors",
    "a lambda keeps arrays",
    "cache, shuffle, prefetch",
    "each fit of one epoch keeps",
)


def known_of(name: str, folder: str) -> dict:
    gc.collect()  # what the run before kept must not be given back in the midst of this one
    monitor = gpukit.Monitor(f"{folder}/{NAMES.index(name)}", verbose=0)
    fit(name, EPOCHS, [monitor], folder, EXAMPLES)
    memory = monitor.summary.memory
    found = [each for each in monitor.summary.findings if each.code == "memory-grows"]
    return {
        "title": found[0].title if found else None,
        "evidence": {each.name: each.value for each in found[0].evidence} if found else {},
        "advice": found[0].advice[0] if found else None,
        "judged": "memory-grows" in monitor.summary.verdict.passed or bool(found),
        "peaks": [
            memory.devices[0].first_step_peak_bytes,
            memory.devices[0].peak_bytes,
            memory.devices[0].later_peak_bytes,
        ],
        "epochs": [each.epoch for each in memory.epochs],
    }


def epochs_until_full(name: str) -> int:
    """Trains on until the allocator has no more."""
    gc.collect()  # of the run before, callbacks and the model refer to each other
    done: list[int] = []
    note = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: done.append(epoch))
    try:
        fit(name, 10 * EPOCHS, [note], "", EXAMPLES)
    except tf.errors.ResourceExhaustedError:
        return len(done)
    raise AssertionError("it never is full")


if __name__ == "__main__":
    found = {name: known_of(name, sys.argv[1]) for name in NAMES}
    print(json.dumps({**found, "full after epochs": epochs_until_full(NAMES[0])}))
