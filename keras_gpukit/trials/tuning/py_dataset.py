"""Tunes a `keras.utils.PyDataset`: the number of workers and the length of their queue."""

from __future__ import annotations

import copy
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from keras_gpukit.rules.input.tuning_advice import PROCESSES, WITHIN
from keras_gpukit.trials.measuring.inside_fit import without_model
from keras_gpukit.trials.sources import endless
from keras_gpukit.trials.tuning.reading import rate
from keras_gpukit.trials.tuning.trials import Attempt, Read, Trials

_THREADS_NOTE = "several threads call __getitem__, which must be safe in threads"
_PROCESSES_NOTE = "several processes call __getitem__, each with a copy of the dataset"


class PyDatasetTuning:
    """Tunes a `keras.utils.PyDataset`: tries more workers, processes, and a longer queue."""

    def __init__(self, dataset: Any, read_s: float, *, processes: bool) -> None:
        self._read_s = read_s
        self._dataset = dataset
        self._best = copy.copy(dataset)
        self._processes = processes

    def read(self, dataset: Any) -> Read:
        """Returns a function that reads a dataset briefly and returns its rate.

        It reads as `fit` does, with Keras' own workers, queue and iterator.
        """
        return _reader(dataset, self._read_s)

    def batches(self) -> Any:
        """Returns a `tf.data.Dataset` with the first batch."""
        import tensorflow as tf

        return tf.data.Dataset.from_tensors(_without_lists(self._dataset[0]))

    def untouched(self) -> AbstractContextManager[None]:
        """Returns a context that does nothing, since there is no state to restore."""
        return nullcontext()

    def tune(self, trials: Trials) -> Any:
        """Tries every setting.

        Returns:
            A shallow copy with the settings that were kept.
        """
        in_vain = 0
        for workers in _more_workers(self._best.workers):
            # One gain may be hidden by noise while that of twice the workers is not.
            if in_vain == 2:
                break
            settings = {"workers": workers}
            kept = self._try(settings, trials, f"{workers} workers", _THREADS_NOTE)
            in_vain = 0 if kept else in_vain + 1
        if self._processes and not self._best.use_multiprocessing:
            workers = max(self._best.workers, os.cpu_count() or 1)
            settings = {"workers": workers, "use_multiprocessing": True}
            self._try(settings, trials, f"{workers} processes", _PROCESSES_NOTE)
        queue = 4 * self._best.workers
        if self._best.workers > 1 and queue > self._best.max_queue_size:
            self._try({"max_queue_size": queue}, trials, f"a queue of {queue} batches", "")
        return self._best

    def accept(self, tuned: Any) -> None:
        """Does nothing, since a tuned `PyDataset` needs no preparation."""

    def code(self, tuned: Any) -> str:
        """Returns the changed settings as lines of code."""
        return "\n".join(
            f"dataset.{name} = {getattr(tuned, name)!r}"
            for name in ("workers", "use_multiprocessing", "max_queue_size")
            if getattr(tuned, name) != getattr(self._dataset, name)
        )

    def advice(self, tuned: Any) -> list[str]:
        """Returns advice on changes by hand."""
        processes = [] if tuned.use_multiprocessing or self._processes else [PROCESSES]
        return [WITHIN, *processes]

    def _try(self, settings: dict[str, Any], trials: Trials, description: str, note: str) -> bool:
        if trials.ending:
            return False
        changed = copy.copy(self._best)
        for name, value in settings.items():
            setattr(changed, name, value)
        name = "-".join(settings).replace("_", "-")
        before, after = self.read(self._best), self.read(changed)
        trial = trials.run(Attempt(name, description, before, after, lambda found: "", note))
        if trial.kept:
            self._best = changed
        return trial.kept


def _reader(dataset: Any, read_s: float) -> Read:
    def read() -> float:
        rates: list[float] = []

        def experiment(step: Any, iterator: Any) -> None:
            rates.append(rate(lambda: next(iterator), read_s))

        without_model(endless(dataset), experiment)
        return rates[0]

    return read


def _without_lists(part: Any) -> Any:
    """Replaces lists by tuples in a structure, because TensorFlow converts lists to tensors."""
    if isinstance(part, dict):
        return {name: _without_lists(each) for name, each in part.items()}
    return tuple(map(_without_lists, part)) if isinstance(part, (list, tuple)) else part


def _more_workers(workers: int) -> list[int]:
    """Returns numbers of workers to try: each doubles the last one, up to four per core.

    With more than four threads per core, the threads only wait.
    """
    most = 4 * (os.cpu_count() or 1)
    steps = []
    while 2 * max(workers, 1) <= most:
        workers = 2 * max(workers, 1)
        steps.append(workers)
    return steps
