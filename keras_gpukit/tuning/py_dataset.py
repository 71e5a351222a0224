"""Tunes a `keras.utils.PyDataset`: the number of workers and the length of their queue."""

from __future__ import annotations

import copy
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from keras_gpukit.rules.gains import PROCESSES, WITHIN
from keras_gpukit.tuning.measuring import without_model
from keras_gpukit.tuning.reading import rate
from keras_gpukit.tuning.sources import endless, without_lists
from keras_gpukit.tuning.trials import Proposal, Read, Trials

_THREADS_NOTE = "several threads call __getitem__, which must be safe in threads"
_PROCESSES_NOTE = "several processes call __getitem__, each with a copy of the dataset"


class PyDatasetTuning:
    """Tunes a `keras.utils.PyDataset`: tries more workers, processes, and a longer queue."""

    def __init__(self, dataset: Any, read_s: float, *, processes: bool) -> None:
        self._read_s = read_s
        self._dataset = dataset
        self._processes = processes

    def reader(self, dataset: Any, pause_s: float = 0.0) -> Read:
        """Returns a function that reads a dataset briefly and returns its rate.

        It reads as `fit` does, with Keras' own workers, queue and iterator.
        """

        def read() -> float:
            rates: list[float] = []

            def experiment(step: Any, iterator: Any) -> None:
                rates.append(rate(lambda: next(iterator), self._read_s, pause_s))

            without_model(endless(dataset), experiment)
            return rates[0]

        return read

    def batches(self) -> Any:
        """Returns a `tf.data.Dataset` with the first batch."""
        import tensorflow as tf

        return tf.data.Dataset.from_tensors(without_lists(self._dataset[0]))

    def untouched(self) -> AbstractContextManager[None]:
        """Returns a context that does nothing, since there is no state to restore."""
        return nullcontext()

    def tune(self, trials: Trials) -> Any:
        """Tries every setting."""
        in_vain = 0
        for workers in _more_workers(self._dataset.workers):
            # One gain may be hidden by noise while that of twice the workers is not.
            if in_vain == 2:
                break
            kept = _try(trials, f"{workers} workers", _THREADS_NOTE, workers=workers)
            in_vain = 0 if kept else in_vain + 1
        if self._processes and not trials.dataset.use_multiprocessing:
            workers = max(trials.dataset.workers, os.cpu_count() or 1)
            settings = {"workers": workers, "use_multiprocessing": True}
            _try(trials, f"{workers} processes", _PROCESSES_NOTE, **settings)
        queue = 4 * trials.dataset.workers
        if trials.dataset.workers > 1 and queue > trials.dataset.max_queue_size:
            _try(trials, f"a queue of {queue} batches", "", max_queue_size=queue)
        return trials.dataset

    def finish(self, tuned: Any, trials: Trials) -> str:
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


def _try(trials: Trials, description: str, note: str, **settings: Any) -> bool:
    if trials.ending:
        return False
    changed = copy.copy(trials.dataset)
    for name, value in settings.items():
        setattr(changed, name, value)
    name = "-".join(settings).replace("_", "-")
    return trials.run(Proposal(name, description, changed, note=note)).kept


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
