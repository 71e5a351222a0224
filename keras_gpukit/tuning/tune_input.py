"""`tune_input`: tries changes to an input pipeline and keeps those that make it faster."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType

from keras_gpukit.arguments import Verbose, check_verbose, refuse
from keras_gpukit.memory.untouched import untouched
from keras_gpukit.records.tuning import Trial, TuningRecord
from keras_gpukit.reports.searches import tuning_view as render
from keras_gpukit.reports.terminal import PipedConsole, as_html, as_text
from keras_gpukit.tuning.caching import CachePermission, Choice
from keras_gpukit.tuning.measured_rates import compute_rate, hold, summarize
from keras_gpukit.tuning.pipeline_changes import Allowed
from keras_gpukit.tuning.pipeline_tuning import PipelineTuning, PyDatasetTuning
from keras_gpukit.tuning.reading import Readings
from keras_gpukit.tuning.sources import (
    ProgressLine,
    check_experiment,
    check_model,
    check_service,
    endless,
    wrong_kind,
)
from keras_gpukit.tuning.trials import Trials

# Maximum share of the total time, and maximum seconds, of one reading and of measuring the model.
READ_SHARE, READ_S = 1 / 150, 0.4
COMPUTE_SHARE, COMPUTE_S = 1 / 15, 4.0


@dataclass(frozen=True)
class TunedInput:
    """The result of `tune_input`. Printing it shows the same report as `tune_input` itself.

    Attributes:
        dataset: The tuned dataset; the original one if no change made it faster.
        code: Python code of the tuned pipeline; "" if no change made it faster.
        record: Rates, trials and advice.
    """

    dataset: Any
    code: str
    record: TuningRecord

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials, in the order in which they ran."""
        return self.record.trials

    def __rich__(self) -> RenderableType:
        return render(self.record, self.code)

    def _repr_html_(self) -> str:
        """Returns the report as HTML, for notebooks."""
        return as_html(self)

    def __str__(self) -> str:
        return as_text(self)


def tune_input(
    model: Any = None,
    dataset: Any = None,
    *,
    seconds: float = 60.0,
    cache: Choice = "ask",
    cache_folder: str | os.PathLike[str] | None = None,
    allow_reorder: bool = False,
    trust_python: bool = False,
    try_processes: bool = False,
    service: str | None = None,
    verbose: Verbose = "auto",
) -> TunedInput:
    """Makes an input pipeline faster by trying changes and measuring each.

    Each changed pipeline is read in turn with the best pipeline so far. The change is kept only if
    it is 5 % faster, and if it is faster at all with 95 % confidence. The tuned dataset gives the
    same elements in the same order, in every epoch. It reuses your functions without tracing them
    again.

    For a `tf.data.Dataset`, it tries a cache, then maps, file reads and batching in parallel, more
    threads, and prefetching. A cache is placed before every shuffle and every random stage. For a
    `keras.utils.PyDataset`, it tries the number of workers and the length of their queue.

    The pipeline is read many times. Side effects of its Python functions happen on every read; the
    states of `random` and `numpy.random` are restored.

    Args:
        model: A compiled model. With it, tuning ends once the input is faster than the model. The
            model is trained briefly, then restored. Without one: `tune_input(dataset)`.
        dataset: A `tf.data.Dataset` of batches, or a `keras.utils.PyDataset`. It is not changed.
        seconds: Total time in seconds. A trial that has started is finished even if it takes
            longer.
        cache: Whether elements may be cached: "memory", "disk", True for either, False for
            neither. "ask" asks in the terminal; without a terminal it caches nothing, but reports
            the gain.
        cache_folder: Existing folder for a cache on disk. By default a temporary folder, which is
            removed when the dataset is deleted.
        allow_reorder: Whether elements may come in another order, and random draws with a seed may
            fall on other elements.
        trust_python: Whether Python functions in the pipeline (`py_function`, generators) depend
            only on their arguments and may run in parallel. If False, no trial runs them in
            parallel.
        try_processes: Whether worker processes of a `PyDataset` may be tried. They are forked while
            TensorFlow's threads run, which can hang.
        service: Address of a tf.data service, such as "grpc://host:5050"; `keras-gpukit
            input-service` starts one. A trial moves the stages before batching to the service. This
            changes the order of elements, so it is kept only with `allow_reorder`. Python functions
            cannot be moved.
        verbose: 0 prints nothing; 1, 2 and "auto" show progress and print the result.

    Raises:
        TypeError: If an argument has another type.
        ValueError: If an argument is out of range, the model is not compiled, the dataset is
            empty or cannot be restarted, the dataset writes a cache on disk that trials cannot
            leave out, nothing answers at `service`, or Keras' backend is not TensorFlow.
    """
    check_experiment("tune_input", seconds=seconds)
    check_verbose(verbose)
    if dataset is None:
        model, dataset = None, model
    if model is not None:
        _check_order(model, dataset)
        check_model(model)
    _check(dataset, cache, cache_folder)
    if service is not None:
        if _is_py_dataset(dataset):
            raise ValueError(
                "A tf.data service makes elements of a tf.data.Dataset; a PyDataset is Python "
                f"code. Received: service={service!r}"
            )
        check_service(service)
    with (
        ProgressLine("tune_input", seconds, shown=bool(verbose)) as show_progress,
        untouched(model),
        # Use the disk on which a cache would be.
        tempfile.TemporaryDirectory(prefix="keras_gpukit-", dir=cache_folder) as scratch,
    ):
        read_s = min(READ_SHARE * seconds, READ_S)
        tuning: PyDatasetTuning | PipelineTuning
        if _is_py_dataset(dataset):
            tuning = PyDatasetTuning(dataset, read_s, processes=try_processes)
        else:
            allowed = Allowed(allow_reorder, trust_python)
            permission = CachePermission(cache, cache_folder, show_progress.ask)
            readings = Readings(scratch, read_s)
            tuning = PipelineTuning(dataset, allowed, permission, readings, service)
        with tuning.untouched():
            result = _run(tuning, dataset, model, seconds, show_progress)
    if verbose:
        PipedConsole().print(result)
    return result


def _run(
    tuning: PyDatasetTuning | PipelineTuning,
    dataset: Any,
    model: Any,
    seconds: float,
    show_progress: Callable[[str], None],
) -> TunedInput:
    began = time.perf_counter()
    compute = None
    if model is not None:
        show_progress("the model alone")
        batches = endless(tuning.batches())
        held = hold(iter(batches), batches.element_spec)
        compute = compute_rate(model, held, seconds=min(COMPUTE_SHARE * seconds, COMPUTE_S))
    left_s = seconds - (time.perf_counter() - began)
    trials = Trials(
        dataset, tuning.reader, seconds=left_s, compute_rate=compute, show_progress=show_progress
    )
    tuned = tuning.tune(trials)
    ending = trials.ending or "nothing left to try"
    gain = trials.confirm(tuned)
    record = TuningRecord(
        trials=tuple(trials.done),
        rate=summarize(gain.before) if gain else trials.first_rate,
        tuned_rate=summarize(gain.after) if gain else trials.first_rate,
        compute_rate=compute,
        gain=gain.gain if gain else 1.0,
        low=gain.low if gain else 1.0,
        high=gain.high if gain else 1.0,
        advice=tuple(tuning.advice(tuned if gain else dataset)),
        ending=ending,
        duration_s=time.perf_counter() - began,
    )
    if not gain:
        return TunedInput(dataset, "", record)
    return TunedInput(tuned, tuning.finish(tuned, trials), record)


def _check_order(model: Any, dataset: Any) -> None:
    import keras

    if isinstance(dataset, keras.Model) and not isinstance(model, keras.Model):
        raise TypeError(
            "The model comes first, as in all trials: tune_input(model, dataset). "
            f"Received: tune_input({type(model).__name__}, {type(dataset).__name__})"
        )


def _check(dataset: Any, cache: Any, cache_folder: Any) -> None:
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset) and not _is_py_dataset(dataset):
        late = "; tune it before it is distributed" * ("Distributed" in type(dataset).__name__)
        accepted = f"`dataset` must be a tf.data.Dataset or a keras.utils.PyDataset{late}."
        raise wrong_kind(dataset, accepted)
    if not isinstance(cache, bool) and cache not in ("ask", "memory", "disk"):
        refuse("cache", '"ask", "memory", "disk", True or False', cache, ValueError)
    if cache_folder is not None and not os.path.isdir(cache_folder):
        refuse("cache_folder", "an existing folder", cache_folder, ValueError)


def _is_py_dataset(dataset: Any) -> bool:
    import keras

    return isinstance(dataset, keras.utils.PyDataset)
