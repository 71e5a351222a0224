"""Measures how fast an input gives examples if nothing consumes them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.trials.batch_sizes.examples import Examples
from keras_gpukit.trials.measuring.inside_fit import without_model
from keras_gpukit.trials.measuring.intervals import summarize
from keras_gpukit.trials.measuring.rates import rate_of, run_for
from keras_gpukit.trials.sources import endless

ROUNDS = 5
# Minimum ratio of the time per batch to the time of fetching a ready batch, which takes Python
# about 0.1 ms whatever the size of the batch.
MEASURABLE = 2.0
# Maximum batch size for arrays, in rows and in bytes. Gathering rows is faster in large batches.
ROWS, ROWS_BYTES = 4096, 2**24


def input_rate(dataset: Any, examples: Examples, seconds: float) -> Rate | None:
    """Measures the rate of an input in batches of its own size.

    The rate in examples per second is assumed to be the same for batches of another size. Fetching
    a ready batch takes a fixed time for each batch, so that time is subtracted.

    Returns:
        Examples per second; None if a batch takes less than twice as long as fetching a ready
        batch. The rate in larger batches may then be much higher.
    """
    rows = int(ROWS_BYTES / max(examples.example_bytes, 1))
    of_arrays = max(1, min(ROWS, rows, examples.total or ROWS))
    size = examples.batch_size or of_arrays
    each_s = seconds / ROUNDS
    ready = iter(examples.one_batch(size))
    asking_s = 1 / rate_of(lambda: next(ready), each_s)
    rates: list[float] = []

    def experiment(step: Any, iterator: Any) -> None:
        run_for(lambda: next(iterator), each_s)  # takes the batches that were made ahead
        ends = time.perf_counter() + seconds
        while len(rates) < ROUNDS and (not rates or time.perf_counter() < ends):
            rates.append(rate_of(lambda: next(iterator), each_s))

    without_model(endless(dataset, None if examples.batch_size else of_arrays), experiment)
    if np.median(rates) * asking_s * MEASURABLE > 1:
        return None
    batches_s = [max(1 / each - asking_s, asking_s) for each in rates]
    return summarize([size / each for each in batches_s], "examples/s")
