"""Steps of a fit that `InputStall` watches all, or one of every two, timed from outside.

What a machine does meanwhile is far larger than the overhead, in blocks of steps and in whole runs.
So neighbours are compared: of every two steps one is watched, chosen at random, and a step in which
the pipeline is read is compared with those before it. The times are those at which Keras begins its
batches.
"""

from __future__ import annotations

import threading
import time

import keras
import numpy as np
import tensorflow as tf

import keras_gpukit as gpukit

FIRST = 1000
"""The step from which on is measured: before, files are opened and readings come more often."""
AFTER = 3
"""Steps after a reading that may still suffer from it."""
BEFORE = 16
"""Steps before a reading that it is compared with."""


class Watched(gpukit.InputStall):
    """Notes when a window ends."""

    def __init__(self, log_dir: str) -> None:
        super().__init__(log_dir)
        self.ended_a_window = False

    def _begin(self, session, phase):
        super()._begin(session, phase)
        session.steps.on_window(phase, self._note)

    def _note(self, window):
        self.ended_a_window = True


class Turns(keras.callbacks.Callback):
    """Stands between Keras and `InputStall`, which then knows of all steps or of one in two.

    Args:
        log_dir: Where `InputStall` writes to.
        watched: Whether each step is watched; None watches all.
    """

    def __init__(self, log_dir: str, watched: np.ndarray | None) -> None:
        super().__init__()
        self._watching = Watched(log_dir)
        self.watched = watched
        self._beside_s: list[float] = []
        self._began_s: list[float] = []
        self.readings: list[int] = []
        """Steps in which the pipeline was read."""
        self.window_ends: set[int] = set()

    def on_train_begin(self, logs=None):
        bare = self.model.train_function
        self._read_model = tf.raw_ops.IteratorGetModelProto
        tf.raw_ops.IteratorGetModelProto = self._read
        self._watching.set_model(self.model)
        self._watching.on_train_begin(logs)
        self._bare, self._watched = bare, self.model.train_function
        assert self._watched is not bare
        self._step, self._is_watched = self._watched, True
        # Setting an attribute of a model costs more than what is measured.
        self.model.train_function = lambda iterator: self._step(iterator)

    def _read(self, iterator):
        self.readings.append(len(self._began_s) - 1)
        return self._read_model(iterator=iterator)

    def on_epoch_begin(self, epoch, logs=None):
        self._watching.on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch, logs=None):
        if self.watched is not None:
            self._is_watched = self.watched[batch]
            self._step = self._watched if self._is_watched else self._bare
        if batch == FIRST:
            self._note_threads()
        self._began_s.append(time.perf_counter())
        if self._is_watched:
            self._watching.on_train_batch_begin(batch, logs)

    def _note_threads(self):
        clocks = [
            time.pthread_getcpuclockid(thread.ident)
            for thread in threading.enumerate()
            if thread.name.startswith("gpukit")
        ]
        self._beside_s.append(sum(map(time.clock_gettime, clocks)))

    def on_train_batch_end(self, batch, logs=None):
        if self._is_watched:
            self._watching.on_train_batch_end(batch, logs)
        if self._watching.ended_a_window:
            self._watching.ended_a_window = False
            self.window_ends.add(len(self._began_s) - 1)

    def on_epoch_end(self, epoch, logs=None):
        self._watching.on_epoch_end(epoch, logs)

    def on_train_end(self, logs=None):
        self._note_threads()
        self.model.train_function = self._watched
        self._watching.on_train_end(logs)
        tf.raw_ops.IteratorGetModelProto = self._read_model

    @property
    def beside_us(self) -> float:
        """Processor time that the threads alongside training took, a step."""
        first_s, last_s = self._beside_s
        return (last_s - first_s) / (len(self._began_s) - FIRST) * 1e6

    @property
    def steps_us(self) -> np.ndarray:
        """How long each step took but the last, from its batch's beginning to the next one's."""
        return np.diff(self._began_s) * 1e6


def added_by_each_step(turns: Turns) -> tuple[np.ndarray, float]:
    """Returns by how much the watched one of every two steps is slower, and the median bare one."""
    steps_us = turns.steps_us
    steps = slice(FIRST, len(steps_us) // 2 * 2)
    pairs_us = steps_us[steps].reshape(-1, 2)
    watched = turns.watched[steps].reshape(-1, 2)
    bare_us = pairs_us[~watched]
    return pairs_us[watched] - bare_us, float(np.median(bare_us))


def added_by_readings(turns: Turns) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns by how much readings make their steps slower than those before.

    Returns:
        Of each plain reading, to its own step and each that follows; of shape (readings, steps).
        The same of each reading that ends a window. Steps they are spread over.
    """
    steps_us = turns.steps_us
    readings = [step for step in turns.readings if FIRST < step < len(steps_us) - AFTER]
    added_us = [
        steps_us[step : step + 1 + AFTER] - np.median(steps_us[step - BEFORE : step])
        for step in readings
    ]
    ends = [step in turns.window_ends for step in readings]
    added, is_end = np.array(added_us), np.array(ends)
    return added[~is_end], added[is_end], readings[-1] - readings[0]
