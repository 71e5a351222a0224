"""`diagnose`: measures how much faster a model would train if its input were free."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from keras_gpukit.arguments import Verbose, check_verbose
from keras_gpukit.memory.untouched import untouched
from keras_gpukit.records.diagnosis import Diagnosis
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports.diagnosis import render
from keras_gpukit.reports.terminal import print_anywhere
from keras_gpukit.rules.savings import of_rates
from keras_gpukit.trials.checks import check_experiment, check_model
from keras_gpukit.trials.diagnosing import Turns, conclude
from keras_gpukit.trials.measuring.inside_fit import within_fit
from keras_gpukit.trials.progress import progress
from keras_gpukit.trials.sources import endless


def diagnose(
    model: Any,
    dataset: Any,
    *,
    batch_size: int | None = None,
    seconds: float = 20.0,
    summary: RunSummary | None = None,
    verbose: Verbose = "auto",
) -> Diagnosis:
    """Measures the rates of the input, of the model, and of both together.

    In each of several rounds, it iterates the pipeline without the model, trains as `fit` does, and
    trains on a few batches in memory. The rate from memory divided by the rate of `fit` is the
    maximum speed-up of the steps by a better pipeline. The model is restored bit for bit, even if
    the experiment ends early: weights, optimizer, metrics and random numbers. Parts that were not
    built or compiled before are not afterwards. No callback of yours runs.

    The dataset is only iterated: from its start, and again if it ends. A dataset that reshuffles on
    each iteration has advanced by one iteration.

    Args:
        model: A compiled model, built or not.
        dataset: The argument of `fit`: a `tf.data.Dataset` of batches, a `keras.utils.PyDataset`,
            or a tuple of arrays `(x, y)` or `(x, y, sample_weight)`.
        batch_size: Examples per batch if the dataset is a tuple of arrays; 32 by default.
        seconds: Duration of the measurement. Tracing the train step and making the first batch take
            additional time. Slow steps may too, because there are at least three rounds.
        summary: Summary of a run of this model on this dataset, from `Monitor.summary`. The result
            then also has the time that the whole run would save, which includes epoch starts,
            validation and callbacks.
        verbose: 0 prints nothing; 1, 2 and "auto" show progress and print the result.

    Returns:
        The rates with their intervals, and the conclusions.

    Raises:
        TypeError: If an argument has another type.
        ValueError: If the model is not compiled, the dataset is empty, or another argument is
            out of range. Exceptions of the dataset or the model are raised unchanged.

    Example:
        ```python
        diagnosis = gpukit.diagnose(model, dataset)
        diagnosis.ceiling_gain  # 1.4: steps are up to 1.4× faster with a better pipeline
        ```
    """
    check_experiment("diagnose", seconds)
    check_model(model)
    if summary is not None and not isinstance(summary, RunSummary):
        raise TypeError(
            "`summary` must be a RunSummary, such as Monitor.summary. "
            f"Received: summary={summary!r}"
        )
    check_verbose(verbose)
    began = time.perf_counter()
    with untouched(model), progress("diagnose", 1.0, shown=bool(verbose)) as tell:
        turns = Turns(model, endless(dataset, batch_size), seconds, tell)
        within_fit(model, turns.source, turns.take)
    concluded = conclude(turns.rounds)
    diagnosis = replace(
        concluded,
        saving=of_rates(summary, concluded.ceiling_interval)
        if summary is not None and concluded.ceiling_gain is not None
        else None,
        examples_per_batch=turns.examples_per_batch,
        spent_s=time.perf_counter() - began,
    )
    if verbose:
        print_anywhere(render(diagnosis))
    return diagnosis
