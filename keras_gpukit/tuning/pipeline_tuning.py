"""Tunes a `tf.data.Dataset` or a `PyDataset` by trying changes in a fixed order."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from keras_gpukit.frameworks.tf_datasets import (
    Dataset,
    cache_file,
    functions,
    inputs,
    kind,
    number,
    stages,
)
from keras_gpukit.frameworks.tf_stages import draws_orders
from keras_gpukit.input.pipelines.functions import function_name, makes_a_generator
from keras_gpukit.input.pipelines.functions import variables as variables_of
from keras_gpukit.input.pipelines.randomness import impurities, varies
from keras_gpukit.input.pipelines.rebuilding import changeable, is_known, rebuilt
from keras_gpukit.memory.untouched import put_back
from keras_gpukit.records.tuning import CACHE_NOT_ALLOWED, StageTraits
from keras_gpukit.rules.gains import PROCESSES, WITHIN, advise
from keras_gpukit.tuning import caching
from keras_gpukit.tuning import pipeline_changes as changes
from keras_gpukit.tuning.as_code import code
from keras_gpukit.tuning.caching import CachePermission
from keras_gpukit.tuning.measured_rates import without_model
from keras_gpukit.tuning.pipeline_changes import Allowed
from keras_gpukit.tuning.reading import Readings, rate, rebuilt_stages
from keras_gpukit.tuning.sources import endless, without_lists
from keras_gpukit.tuning.trials import Proposal, Read, Trials

# Placeholder in the code for the path of a temporary cache.
PATH_IN_CODE = '"cache/elements"'
# Stages whose functions return a dataset. One that consists only of the last of these stages has
# one element.
_NESTS = {"FlatMap", "Interleave", "ParallelInterleave"}
_ONE_ELEMENT = {"TensorDataset", "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2"}

# In the order in which they are tried, after a cache: what it holds needs no further change.
_PROPOSALS: tuple[changes.Propose, ...] = (
    changes.autotuning,
    changes.parallel_maps,
    changes.parallel_files,
    changes.parallel_batches,
    changes.any_order,
    changes.more_threads,
    changes.prefetch,
)


@dataclass(eq=False)
class PipelineTuning:
    """Tunes a `tf.data.Dataset`."""

    dataset: Dataset
    allowed: Allowed
    permission: CachePermission
    readings: Readings
    service: str | None = None

    def __post_init__(self) -> None:
        within_reach = {id(stage) for stage in changeable(self.dataset)}
        for stage in stages(self.dataset):
            if kind(stage) == "Cache" and id(stage) not in within_reach and cache_file(stage):
                raise ValueError(
                    "`dataset` must not cache on disk below a stage that is not known: reading a "
                    "part of it would leave a part of the cache. Tune the dataset below its "
                    f"cache. Received: dataset={self.dataset!r}"
                )
        self._cache_pays = False

    def reader(self, dataset: Dataset, pause_s: float = 0.0) -> Read:
        """Returns a function that reads a pipeline briefly and returns its rate."""
        return self.readings.of(dataset, pause_s)

    def batches(self) -> Dataset:
        """Returns the pipeline in a form from which batches can be taken."""
        return self.readings.ready(self.dataset)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Restores the variables that the pipeline uses, such as the state of a generator."""
        variables = [variable for stage in stages(self.dataset) for variable in variables_of(stage)]
        with put_back([partial(variable.assign, variable.numpy()) for variable in variables]):
            yield

    def tune(self, trials: Trials) -> Dataset:
        """Tries every change; returns the tuned pipeline, from which nothing was read yet."""
        self._try_caching(trials)
        first: list[changes.Propose] = [changes.hindered_maps]
        if self.service is not None:
            first.append(partial(changes.serving, service=self.service))
        for propose in (*first, *_PROPOSALS):
            proposal = None if trials.ending else propose(trials.dataset, self.allowed)
            if proposal is not None:
                trials.run(proposal)
        if trials.dataset is self.dataset:
            return self.dataset
        tuned = rebuilt(trials.dataset)
        for name, value in vars(self.dataset).items():
            if not name.startswith("_"):  # such as Keras' `class_names`
                setattr(tuned, name, value)
        return tuned

    def finish(self, tuned: Dataset, trials: Trials) -> str:
        """Makes the folder of a tuned pipeline's cache on disk; returns the pipeline's code."""
        for stage in stages(tuned):
            if kind(stage) == "Cache":
                self.permission.make_room(stage)
        lines, pasted = list(trials.lines), code(self.dataset, tuned)
        path = repr(self.permission.path)
        if self.permission.is_temporary and path in pasted:
            lines.append(f"# The folder of {PATH_IN_CODE} must exist.")
            pasted = pasted.replace(path, PATH_IN_CODE)
        return "\n".join([*lines, pasted])

    def advice(self, tuned: Dataset) -> list[str]:
        """Returns advice on changes by hand, and on state that reading could not restore."""
        found = traits(tuned, trust_python=self.allowed.trust_python)
        lines = advise(found, cache_pays=self._cache_pays)
        copied = {id(stage) for stage in rebuilt_stages(self.dataset)}
        if any(id(stage) not in copied and draws_orders(stage) for stage in stages(self.dataset)):
            lines.append(
                "A seeded shuffle or random numbers come before a stage of unknown kind: tuning "
                "has advanced them. Rebuild the dataset to get what they give without tuning."
            )
        return lines

    def _try_caching(self, trials: Trials) -> None:
        permission = self.permission
        if not permission.places or trials.ending:
            return
        proposal = caching.propose(
            self.dataset, self.allowed, self.readings, permission, lambda: bool(trials.ending)
        )
        decide = partial(permission.decide, proposal.description)
        self._cache_pays = trials.run(proposal, decide).note == CACHE_NOT_ALLOWED


def traits(dataset: Dataset, *, trust_python: bool) -> list[StageTraits]:
    """Returns what the advice depends on, for each stage that has another stage below it."""
    return [_traits_of(stage, trust_python) for stage in stages(dataset) if inputs(stage)]


def _traits_of(stage: Dataset, trust_python: bool) -> StageTraits:
    below, sort = inputs(stage)[0], kind(stage)
    known = sort if is_known(stage) else ""
    is_map = kind(below) in {"Map", "ParallelMap"} and not impurities(below)
    return StageTraits(
        function=function_name(stage) if functions(stage) else None,
        function_below=function_name(below) if is_map else None,
        is_generator=makes_a_generator(stage),
        is_python="python" in impurities(stage),
        gives_single_elements=sort in _NESTS and _nests_one_element(stage),
        batch_size=number(stage, "batch_size") if known in {"Batch", "ParallelBatch"} else None,
        shuffle_buffer=number(stage, "buffer_size") if known == "Shuffle" else None,
        caches_what_varies=varies(below, trust_python=trust_python) if sort == "Cache" else None,
    )


def _nests_one_element(stage: Dataset) -> bool:
    made = {
        node.op
        for function in functions(stage)
        for node in function.graph.as_graph_def().node
        if node.op.endswith(("Dataset", "DatasetV2", "DatasetV3", "DatasetV4"))
    }
    return "TensorDataset" in made and made <= _ONE_ELEMENT


_THREADS_NOTE = "several threads call __getitem__, which must be safe in threads"
_PROCESSES_NOTE = "several processes call __getitem__, each with a copy of the dataset"


class PyDatasetTuning:
    """Tunes a `keras.utils.PyDataset`: tries more workers, processes, and a longer queue."""

    def __init__(self, dataset: Any, read_s: float, *, processes: bool) -> None:
        self._dataset, self._read_s, self._processes = dataset, read_s, processes

    def reader(self, dataset: Any, pause_s: float = 0.0) -> Read:
        """Returns a function that reads a dataset as `fit` does, and returns its rate."""

        def read_rate() -> float:
            rates: list[float] = []

            def experiment(step: Any, iterator: Any) -> None:
                rates.append(rate(lambda: next(iterator), self._read_s, pause_s))

            without_model(endless(dataset), experiment)
            return rates[0]

        return read_rate

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
    """Returns numbers of workers to try: each doubles the last one, up to four per core."""
    most = 4 * (os.cpu_count() or 1)  # more threads only wait
    steps = []
    while 2 * max(workers, 1) <= most:
        workers = 2 * max(workers, 1)
        steps.append(workers)
    return steps
