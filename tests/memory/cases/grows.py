"""Trains runs whose memory grows or fills up, and prints what is found. Argument: a folder."""

import gc
import json
import sys

import keras
import numpy as np
import tensorflow as tf

import keras_gpukit as gpukit

EPOCHS, EXAMPLES, FEATURES, BATCH = 16, 256, 64, 64
KEPT_BYTES = 4 * 2**20
"""What a leak adds in each epoch."""
SCRIPTS_LIST: list[np.ndarray] = []
NAMES = (
    "a callback keeps tensors",
    "a lambda keeps arrays",
    "cache, shuffle, prefetch",
    "each fit of one epoch keeps",
)


class Keeper(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[tf.Tensor] = []

    def on_epoch_end(self, epoch, logs=None):
        self.outputs.append(tf.random.uniform((KEPT_BYTES // 4,)))


def keeps_arrays() -> keras.callbacks.Callback:
    kept: list[np.ndarray] = []
    return keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: kept.append(np.ones(KEPT_BYTES, "uint8"))
    )


def fit(name: str, epochs: int, *callbacks: keras.callbacks.Callback) -> None:
    model = keras.Sequential(
        [keras.Input((FEATURES,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", jit_compile=False)
    x = np.random.default_rng(0).normal(size=(EXAMPLES, FEATURES)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    slices = tf.data.Dataset.from_tensor_slices((x, y))
    if name == "each fit of one epoch keeps":
        for _ in range(epochs):
            model.fit(x, y, batch_size=BATCH, verbose=0, callbacks=callbacks)
            SCRIPTS_LIST.append(np.ones(KEPT_BYTES, "uint8"))
    elif name == "cache, shuffle, prefetch":
        mapped = slices.map(lambda a, b: (a * 2.0, b)).cache()
        data = mapped.shuffle(EXAMPLES).batch(BATCH).prefetch(2)
        model.fit(data, epochs=epochs, verbose=0, callbacks=callbacks)
    else:
        leak = Keeper() if name == "a callback keeps tensors" else keeps_arrays()
        model.fit(x, y, BATCH, epochs, verbose=0, callbacks=[leak, *callbacks])


def known_of(name: str, folder: str) -> dict:
    gc.collect()  # what the run before kept must not be given back in the midst of this one
    monitor = gpukit.Monitor(f"{folder}/{NAMES.index(name)}", verbose=0)
    fit(name, EPOCHS, monitor)
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
        fit(name, 10 * EPOCHS, note)
    except tf.errors.ResourceExhaustedError:
        return len(done)
    raise AssertionError("it never is full")


if __name__ == "__main__":
    found = {name: known_of(name, sys.argv[1]) for name in NAMES}
    print(json.dumps({**found, "full after epochs": epochs_until_full(NAMES[0])}))
