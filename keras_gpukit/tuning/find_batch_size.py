"""`find_batch_size`: finds the largest batch size that fits into memory, and the fastest."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import Any

from keras_gpukit.arguments import Verbose, check_flag, check_verbose, check_whole
from keras_gpukit.memory.untouched import untouched
from keras_gpukit.records.tuning import BatchSizeSearch
from keras_gpukit.reports.searches import batch_size_view as render
from keras_gpukit.reports.terminal import print_anywhere
from keras_gpukit.rules.compute import batch_size as rules
from keras_gpukit.sensors.installation import read_state
from keras_gpukit.tuning.examples import Examples, examples_of, input_rate
from keras_gpukit.tuning.isolated_trials import InOwnProcesses, TrialJob
from keras_gpukit.tuning.processes import prepared_context
from keras_gpukit.tuning.size_search import SizeSearch
from keras_gpukit.tuning.sources import (
    ProgressLine,
    check_experiment,
    check_model,
    check_one_device,
)
from keras_gpukit.tuning.trainer import Trainer

MOST = 2**16
INPUT_SHARE, INPUT_S = 1 / 50, 2.0


def find_batch_size(
    model: Any,
    dataset: Any,
    *,
    isolated: bool = False,
    max_batch_size: int | None = None,
    seconds: float = 90.0,
    verbose: Verbose = "auto",
) -> BatchSizeSearch:
    """Finds the largest batch size that fits into memory, and the fastest.

    The largest batch size is found by training. Trials with small batches correct the predicted
    size. Further trials start at that size and narrow a bracket until its ends differ by at most
    2 %. The recommended size is 2 % below the largest that passed. Up to four longer trials confirm
    it: each trains two epochs of full batches with a smaller last batch, while the memory of 2 % of
    the batch is withheld. If one of them fails, the recommended size is lowered.

    The fastest batch size is the knee of the throughput curve: the smallest size whose rate is
    within 5 % of the highest. Rates are measured for the largest size and for powers of two below
    it. The rate of the input is measured too, and no batch size counts as faster than the input.

    Batches of any size are made by repeating a few examples of the data set.

    Without `isolated`, trials run in this process, next to all that it holds in memory. The model
    is restored bit for bit, as by `diagnose`, but TensorFlow keeps the memory that it took. With
    `isolated`, each memory trial starts in a new process and so finds the memory that a separate
    program would find.

    Args:
        model: A compiled model, on one device. With `isolated`, Keras must be able to save it with
            its compilation. Alternatively, pass a function without arguments that makes the model
            and that another process can import.
        dataset: The argument of `fit`: a `tf.data.Dataset` of batches, a `keras.utils.PyDataset`,
            or a tuple of arrays `(x, y)` or `(x, y, sample_weight)`. Its batch size is irrelevant.
        isolated: Whether trials run in separate processes. The script must then guard its code with
            `if __name__ == "__main__":`. On GPUs, this process must not take all the memory: call
            `configure_gpus(memory="growth")`.
        max_batch_size: Maximum batch size to look for. By default the number of examples, but at
            most 65,536. To be sure that it fits, sizes up to 2 % above it are tried.
        seconds: Approximate duration of the search. No trial starts that would end after it, if it
            took as long as earlier ones. At least one trial confirms the largest size, and one rate
            is measured, in any case.
        verbose: 0 prints nothing; 1, 2 and "auto" show progress and print the result.

    Returns:
        Both batch sizes, and all trials. On a CPU without a memory limit, `largest` is None.

    Raises:
        TypeError: If an argument has another type.
        ValueError: If the model is not compiled, is on several replicas, accepts one batch size
            only, or cannot be moved to another process; if the dataset is empty or does not give
            batches of dense tensors; or if another argument is out of range.
        TrialError: If a trial in a separate process failed for a reason other than memory.

    Example:
        ```python
        found = gpukit.find_batch_size(model, (x, y))
        found.largest, found.fastest  # 1210, 256
        ```
    """
    check_experiment("find_batch_size", seconds=seconds)
    check_whole("max_batch_size", max_batch_size, optional=True)
    check_flag("isolated", isolated)
    check_verbose(verbose)
    _check_model(model, isolated)
    began = time.perf_counter()
    examples = examples_of(dataset)
    most, most_because = _most(max_batch_size, examples)
    with ExitStack() as stack:
        show_progress = ProgressLine("find_batch_size", seconds, shown=bool(verbose))
        stack.enter_context(show_progress)
        show_progress("the input alone")
        measured = input_rate(dataset, examples, min(INPUT_SHARE * seconds, INPUT_S))
        rate = None if measured is None else measured.median
        trials: Trainer | InOwnProcesses
        if isolated:
            job = TrialJob.of(model, examples)
            trials = InOwnProcesses(job, stack.enter_context(prepared_context()))
            stack.callback(trials.close)
        else:
            stack.enter_context(untouched(model))
            trials = Trainer(model, examples, filtered=True)
        left_s = seconds - (time.perf_counter() - began)
        search = SizeSearch(
            trials, most=most, seconds=left_s, input_rate=rate, show_progress=show_progress
        )
        survey = search.run()
    is_unlimited = survey is not None and survey.limit_bytes is None
    found = BatchSizeSearch(
        largest=search.largest,
        fastest=rules.fastest(search.rates, rate),
        trials=tuple(search.done),
        margin=rules.MARGIN,
        limit_bytes=None if survey is None else survey.limit_bytes,
        predicted_largest=search.predicted,
        input_rate=measured,
        limited_by_input=rules.is_limited_by_input(search.rates, rate),
        most=most,
        most_because=most_because,
        unlimited_because="as no limit of the device's memory is known" if is_unlimited else None,
        isolated=isolated,
        execution=survey.execution if survey is not None else "graph",
        ending=search.ending,
        duration_s=time.perf_counter() - began,
    )
    if verbose:
        print_anywhere(render(found))
    return found


def _check_model(model: Any, isolated: bool) -> None:
    import keras

    if isolated and not _leaves_memory():
        raise ValueError(
            "`isolated` needs memory of the GPU that this process has not taken: call "
            'configure_gpus(memory="growth") first. Received: isolated=True'
        )
    if isolated and not isinstance(model, keras.Model) and callable(model):
        return
    check_model(model)
    check_one_device(model, "find the batch size of a replica")
    fixed = {tensor.shape[0] for tensor in getattr(model, "inputs", None) or ()} - {None}
    if fixed and not _may_be_built_by_data(model):
        raise ValueError(
            "`model` must take batches of any size: leave out batch_size of its Input. "
            f"Received: a model named {model.name!r} for batches of {fixed.pop()}"
        )


def _leaves_memory() -> bool:
    """Whether this process leaves memory of each GPU to other processes."""
    state = read_state()
    forced = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "").lower() == "true"
    return all(
        forced or state.growth[gpu] or state.memory_limit_mib[gpu] for gpu in state.visible_gpus
    )


def _may_be_built_by_data(model: Any) -> bool:
    """Whether the model's fixed batch size may come from the first batch, on which Keras built it.

    Such a model trains with any other size too, unless a layer keeps a state for each example.
    """
    import keras

    return isinstance(model, keras.Sequential) and not any(
        getattr(layer, "stateful", False) for layer in model.layers
    )


def _most(given: int | None, examples: Examples) -> tuple[int, str]:
    """Returns the maximum batch size to look for, and the reason for this maximum."""
    if given is not None:
        return given, f"max_batch_size is {given:,}"
    if examples.total is not None and examples.total < MOST:
        about = "" if examples.total_is_exact else "about "
        return examples.total, f"the data set has {about}{examples.total:,} examples"
    return MOST, f"by default {MOST:,} is the most"
