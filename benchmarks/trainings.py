"""Trainings with a planted cause and without it, in turns."""

from __future__ import annotations

import gc
import time

import keras
import tensorflow as tf
from planted.bottlenecks import FEATURES, batches

from keras_gpukit.tuning.diagnose import REST_S
from keras_gpukit.tuning.measuring import wait_until_quiet

FIT_S = 0.4


def build_model() -> keras.Model:
    """A step of a few milliseconds on two cores."""
    layers = [keras.layers.Dense(768, activation="relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    return model


def in_memory(dataset: tf.data.Dataset | keras.utils.PyDataset) -> tf.data.Dataset:
    """The same batches with nothing left to do."""
    if isinstance(dataset, keras.utils.PyDataset):
        dataset = batches()
    cached = dataset.cache()
    for _ in cached:
        pass
    return cached.repeat().prefetch(tf.data.AUTOTUNE)


class Pace(keras.callbacks.Callback):
    """Times the steps of a `fit` and ends it.

    By where they begin: Keras would convert its logs for a callback that is called at their end,
    which slows the steps down.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.begins: list[float] = []

    def on_train_batch_begin(self, batch, logs=None) -> None:
        self.begins.append(time.perf_counter())
        if self.begins[-1] - self.begins[0] > self.seconds and len(self.settled) >= 5:
            self.model.stop_training = True

    @property
    def settled(self) -> list[float]:
        return [begin for begin in self.begins if begin - self.begins[0] >= 0.3 * self.seconds]

    @property
    def rate(self) -> float:
        return (len(self.settled) - 1) / (self.settled[-1] - self.settled[0])


def fit_rate(model: keras.Model, dataset, seconds: float) -> float:
    pace = Pace(seconds)
    model.fit(dataset, epochs=1000, verbose=0, callbacks=[pace])
    return pace.rate


class Trainings:
    """Times `fit` with the planted cause and without it, in turns."""

    def __init__(self, planted: tf.data.Dataset | keras.utils.PyDataset, pairs: int) -> None:
        self.with_it: list[float] = []
        self.without: list[float] = []
        self.spent_s = 0.0
        self._pairs = pairs
        self._model, self._removed = build_model(), in_memory(planted)
        self._planted = planted.repeat() if isinstance(planted, tf.data.Dataset) else planted
        fit_rate(self._model, self._removed, 0.5)

    def run(self) -> None:
        began = time.perf_counter()
        wait_until_quiet(REST_S)  # buffers of the pipeline that is being diagnosed
        for _ in range(self._pairs):
            self.with_it.append(fit_rate(self._model, self._planted, FIT_S))
            self.without.append(fit_rate(self._model, self._removed, FIT_S))
        # An iterator can take seconds to be freed; not while `diagnose` measures.
        gc.collect()
        self.spent_s += time.perf_counter() - began
