"""What monitoring adds to short fits and short epochs, apart from their steps."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from harness import in_turns

import keras_gpukit as gpukit
from keras_gpukit.trials.measuring.intervals import median_interval

FIT_STEPS = 20
EPOCH_STEPS, EPOCHS = 5, 40


class EpochTimes(keras.callbacks.Callback):
    """Notes when epochs begin, by the clock and by the training thread's processor time."""

    def on_train_begin(self, logs=None):
        self._began = []

    def on_epoch_begin(self, epoch, logs=None):
        self._began.append((time.perf_counter(), time.thread_time()))

    def median_s(self) -> np.ndarray:
        """Of the epochs after the first, each up to the next one's begin."""
        return np.median(np.diff(self._began[1:], axis=0), axis=0)


def around_steps(
    model: keras.Model, build_dataset: Callable[[int], tf.data.Dataset], rounds: int
) -> dict[str, Any]:
    """What is added to short fits and short epochs, in turns with bare ones.

    Medians, as a third of bare short epochs stand still until tf.data's autotuning wakes up.

    Args:
        model: What is trained.
        build_dataset: Makes the data of so many steps.
        rounds: How often each fit runs.

    Returns:
        In milliseconds of wall time and of the training thread's processor time, with the 95 %
        interval.
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
        times = {key: np.array(each) for key, each in in_turns(variants, rounds).items()}
        for added_s, kind in zip((times[True] - times[False]).T, ("wall", "thread"), strict=True):
            figures[f"{name}_{kind}_ms"] = float(np.median(added_s)) * 1e3
            figures[f"{name}_{kind}_ms_95"] = [
                float(each) * 1e3 for each in median_interval(list(added_s))
            ]
    return figures
