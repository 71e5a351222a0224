"""Makes batches of any size from a few examples, and measures how fast an input gives them."""

from __future__ import annotations

import reprlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_gpukit.records.tuning import Rate
from keras_gpukit.tuning.measured_rates import rate_of, run_for, summarize, without_model
from keras_gpukit.tuning.sources import (
    check_arrays,
    endless,
    fed_as,
    no_batch,
    without_lists,
    wrong_kind,
)

# On a CPU, examples take memory from the allocator that is measured, so they must be few.
HELD_EXAMPLES = 64
HELD_BYTES = 2**24
BATCHES_READY = 2
_LOOKED_AT = 8


@dataclass(frozen=True)
class Examples:
    """A few examples of a data set, in host memory.

    Attributes:
        parts: Arrays with one row per example, in the structure of the argument of `fit`.
        batch_size: Examples per batch of the data set; None for arrays, which have no batches.
        total: Number of examples in the data set; None if unknown.
        total_is_exact: Whether `total` is exact; otherwise it is an estimate.
    """

    parts: Any
    batch_size: int | None
    total: int | None
    total_is_exact: bool = True

    @property
    def spec(self) -> Any:
        """Specification of a batch of any size, as a dataset's `element_spec`."""
        return self.batches(1, 1).element_spec

    def batches(self, batch_size: int, rows: int) -> Any:
        """Returns a `tf.data.Dataset` of a number of examples that assembles each batch."""
        import tensorflow as tf

        with tf.device("CPU:0"):
            slices = tf.data.Dataset.from_tensor_slices(self.parts)
        batches = slices.repeat().take(rows).batch(batch_size).prefetch(BATCHES_READY)
        # Fix the number of ready batches: if a CPU trains, they take memory from its allocator.
        options = tf.data.Options()
        options.autotune.enabled = False
        return batches.with_options(options)

    def one_batch(self, batch_size: int) -> Any:
        """Returns an endless `tf.data.Dataset` that repeats one batch from memory."""
        import tensorflow as tf

        rows = np.arange(batch_size) % _rows(self.parts)
        with tf.device("CPU:0"):
            batch = tf.nest.map_structure(lambda part: tf.convert_to_tensor(part[rows]), self.parts)
            one = tf.data.Dataset.from_tensors(batch)
        # Leave the batch size open in the specification, so that all sizes share one trace, as in
        # Keras.
        variant = tf.data.experimental.to_variant(one)
        return tf.data.experimental.from_variant(variant, self.spec).repeat().prefetch(1)


def examples_of(dataset: Any) -> Examples:
    """Takes a few examples from a dataset for `fit`.

    If batches have different shapes, as with padded sequences, the examples come from the batch
    with the largest examples among the first eight.
    """
    import keras
    import tensorflow as tf

    if isinstance(dataset, tuple):
        total = check_arrays(tf.nest.flatten(dataset))
        parts = tf.nest.map_structure(lambda array: array[:HELD_EXAMPLES], without_lists(dataset))
        fed = tf.nest.map_structure(lambda part: _as_rows(part).astype(fed_as(part)), parts)
        return Examples(_first(fed), None, total)
    if isinstance(dataset, tf.data.Dataset):
        _check_spec(dataset)
        batches = list(dataset.take(_LOOKED_AT).as_numpy_iterator())
        count = int(dataset.cardinality())
    elif isinstance(dataset, keras.utils.PyDataset):
        count = -1 if dataset.num_batches is None else dataset.num_batches
        looked_at = _LOOKED_AT if count < 0 else min(count, _LOOKED_AT)
        batches = [without_lists(dataset[index]) for index in range(looked_at)]
    else:
        raise wrong_kind(dataset)
    if not batches:
        raise no_batch(dataset)
    parts = max((tf.nest.map_structure(_as_rows, batch) for batch in batches), key=_example_bytes)
    rows = [_rows(batch) for batch in batches]
    if len(rows) == count:
        return Examples(_first(parts), max(rows), sum(rows))
    # The last batch was not examined, and may be smaller.
    about = max(rows) * count if count > 0 else None
    return Examples(_first(parts), max(rows), about, total_is_exact=False)


def _check_spec(dataset: Any) -> None:
    import tensorflow as tf

    for spec in tf.nest.flatten(dataset.element_spec):
        if not isinstance(spec, tf.TensorSpec):
            raise ValueError(
                "`dataset` must give dense tensors: batches of another size cannot be made of "
                f"ragged and sparse ones. Received: {reprlib.repr(spec)} in its elements"
            )
        if spec.shape.rank == 0:
            raise ValueError(
                "`dataset` must give batches, as fit() needs them: call dataset.batch(). "
                f"Received: dataset={dataset!r}"
            )


def _as_rows(array: Any) -> np.ndarray:
    found = np.asarray(array)
    if not found.shape:
        raise ValueError(
            "`dataset` must give batches, arrays with a row for each example. "
            f"Received: a batch with {reprlib.repr(array)} in it"
        )
    return found


def _rows(batch: Any) -> int:
    import tensorflow as tf

    rows = {len(array) for array in tf.nest.flatten(batch)}
    if len(rows) != 1:
        raise ValueError(
            "`dataset` must give batches, whose arrays all have a row for each example; "
            "call dataset.batch() if it gives single examples. "
            f"Received: an element with arrays of {sorted(rows)} rows"
        )
    return rows.pop()


def _example_bytes(parts: Any) -> float:
    import tensorflow as tf

    size_bytes: int = sum(array.nbytes for array in tf.nest.flatten(parts))
    return size_bytes / max(_rows(parts), 1)


def _first(parts: Any) -> Any:
    """Returns the first examples: at most 64 and at most 16 MiB, but at least one."""
    import tensorflow as tf

    count = max(1, min(HELD_EXAMPLES, int(HELD_BYTES / max(_example_bytes(parts), 1))))
    return tf.nest.map_structure(lambda part: part[:count], parts)


ROUNDS = 5
# Minimum ratio of the time per batch to the time of fetching a ready batch, which takes Python
# about 0.1 ms whatever the size of the batch.
MEASURABLE = 2.0
# Maximum batch size for arrays, in rows and in bytes. Gathering rows is faster in large batches.
ROWS, ROWS_BYTES = 4096, 2**24


def input_rate(dataset: Any, examples: Examples, seconds: float) -> Rate | None:
    """Measures the rate of an input in batches of its own size.

    The rate in examples/s is assumed to be the same for batches of another size. Fetching a ready
    batch takes a fixed time, which is subtracted. The rate is unknown if a batch takes less than
    twice as long, since it may then be much higher in larger batches.
    """
    rows = int(ROWS_BYTES / max(_example_bytes(examples.parts), 1))
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
    batches_s = [max(1 / rate - asking_s, asking_s) for rate in rates]
    return summarize([size / batch_s for batch_s in batches_s], "examples/s")
