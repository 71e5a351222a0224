"""How fast an input gives examples when nothing is done with them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from keras_gpukit.experiments.batch_sizes.examples import Examples
from keras_gpukit.experiments.sources import endless
from keras_gpukit.measuring.inside_fit import without_model
from keras_gpukit.measuring.intervals import summarize
from keras_gpukit.measuring.rates import rate_of, run_for
from keras_gpukit.records.diagnosis import Rate

ROUNDS = 5
# Python takes a tenth of a millisecond to ask for a batch, whatever its size.
MEASURABLE = 2.0
# Arrays have no batches of their own. The larger they are, the faster rows are gathered.
ROWS, ROWS_BYTES = 4096, 2**24


def input_rate(dataset: Any, examples: Examples, seconds: float) -> Rate | None:
    """Measures an input as it comes, in its own batches.

    A pipeline is taken to give as many examples per second in batches of another size. So the time
    that it takes to ask for a batch that is ready is no part of it.

    Args:
        dataset: A `tf.data.Dataset` of batches, a `keras.utils.PyDataset`, or a tuple of arrays.
        examples: Taken from it.
        seconds: How long to measure.

    Returns:
        Examples per second; None for an input whose batches take less than twice as long as asking
        for one that is ready, so that the rate in larger batches may be far higher.
    """
    rows = int(ROWS_BYTES / max(examples.example_bytes, 1))
    of_arrays = max(1, min(ROWS, rows, examples.total or ROWS))
    size = examples.batch_size or of_arrays
    ready = iter(examples.one_batch(size))
    asking_s = 1 / rate_of(lambda: next(ready), seconds / ROUNDS)
    rates: list[float] = []

    def experiment(step: Any, iterator: Any) -> None:
        def fetch() -> Any:
            return next(iterator)

        # What was made ahead.
        run_for(fetch, seconds / ROUNDS)
        ends = time.perf_counter() + seconds
        while len(rates) < ROUNDS and (not rates or time.perf_counter() < ends):
            rates.append(rate_of(fetch, seconds / ROUNDS))

    source = endless(dataset, of_arrays if examples.batch_size is None else None)
    without_model(source, experiment)
    if np.median(rates) * asking_s * MEASURABLE > 1:
        return None
    batches_s = [max(1 / each - asking_s, asking_s) for each in rates]
    return summarize([size / each for each in batches_s], "examples/s")
