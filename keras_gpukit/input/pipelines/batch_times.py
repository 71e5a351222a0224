"""Adds stages to a pipeline that note when each of its batches was requested and handed out.

Elements, their order and the number of batches made ahead stay the same. tf.data writes the times
into a table, on its own threads: training does not wait for it.

Private names, seen on TensorFlow 2.21: `context.anonymous_name`, for a variable that no strategy
mirrors, and that is freed along with the pipelines that write to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_gpukit.input.pipelines.measurable import (
    with_prefetch_of_its_own,
    without_further_prefetch,
)
from keras_gpukit.input.pipelines.structure import Dataset

_REQUESTED, _HANDED_OUT = 0, 1


class BatchTimes:
    """Times of the latest batches that the newest iterator over a pipeline took from it.

    Args:
        kept: Number of batches whose times are kept.
    """

    def __init__(self, kept: int) -> None:
        import tensorflow as tf
        from tensorflow.python.eager import context

        self.kept = kept
        # For each batch two rows: when it was requested, and when it was handed out. A row holds
        # when the iterator began, which sets it apart, the batch's number, and the time.
        shape = [2 * kept, 3]
        self._handle = tf.raw_ops.VarHandleOp(
            dtype=tf.float64, shape=shape, shared_name=context.anonymous_name()
        )
        nothing = tf.fill(shape, tf.constant(-1, tf.float64))
        tf.raw_ops.AssignVariableOp(resource=self._handle, value=nothing)

    def note(self, event: int, began_s: Any, batch: Any) -> Any:
        """Returns the operation, in a function of the pipeline, that writes the current time."""
        import tensorflow as tf

        row = tf.stack([began_s, tf.cast(batch, tf.float64), tf.timestamp()])
        return tf.raw_ops.ResourceScatterUpdate(
            resource=self._handle, indices=2 * (batch % self.kept) + event, updates=row
        )

    def take(self) -> Any:
        """Returns the table as it is now, as a tensor; takes some 10 µs."""
        import tensorflow as tf

        return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=tf.float64)

    def times_s(self, taken: Any, batches: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Returns when batches were requested and handed out.

        Args:
            taken: Result of `take`.
            batches: Numbers of batches, from 0. Shape (batches,).

        Returns:
            Seconds since the Unix epoch; NaN where unknown. Shape (batches, 2).
        """
        table = taken.numpy().reshape(self.kept, 2, 3)
        began_s = table[..., 0].max()
        rows = table[batches % self.kept]
        is_known = (rows[..., 0] == began_s) & (rows[..., 1] == batches[:, None])
        return np.where(is_known, rows[..., 2], np.nan)


def with_batch_times(dataset: Dataset, kept: int) -> tuple[Dataset, BatchTimes]:
    """Returns the dataset with stages that note the times of its batches, and these times.

    Raises:
        ValueError: If the options of an autotuned dataset ask for a prefetch.
    """
    import tensorflow as tf

    def note(began_s: Any, batch: Any) -> Any:
        with tf.control_dependencies([times.note(_REQUESTED, began_s, batch)]):
            return tf.identity(began_s), tf.identity(batch)

    def hand_out(request: Any, batch: Any) -> Any:
        # With a side effect, TensorFlow does not make this stage run ahead in parallel.
        times.note(_HANDED_OUT, *request)
        return batch

    with tf.device("CPU:0"):
        times = BatchTimes(kept)
        requests = (
            tf.data.Dataset.from_tensors(0)
            .map(lambda _: tf.timestamp())  # once per iterator
            .flat_map(lambda began_s: tf.data.Dataset.counter().map(lambda at: note(began_s, at)))
            .repeat()  # tf.data cannot tell that it is endless already
        )
        timed = tf.data.Dataset.zip(requests, with_prefetch_of_its_own(dataset)).map(hand_out)
        return without_further_prefetch(timed, dataset.options()), times
