"""Pipelines whose last buffers are on other devices, and the times of the batches they are fed.

`prefetch_to_device` and strategies with several devices fetch batches on the host, copy them, and
keep some on each device. A stage before the copy notes when each batch was requested and handed
out. Elements, their order and the number of batches made ahead stay the same. tf.data writes the
times into a table, on its own threads: training does not wait for it.

Private names, seen on TensorFlow 2.21: `_CopyToDeviceDataset._target_device`,
`._source_device_string` and `._input_dataset`, `DatasetV2._variant_tensor`, and
`DistributedDataset._input_workers`, `._options` and `._cloned_datasets`. If one is missing, the
times of such batches are unknown.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_gpukit.input.pipelines.kinds import kind
from keras_gpukit.input.pipelines.measurable import (
    with_prefetch_of_its_own,
    without_further_prefetch,
)
from keras_gpukit.input.pipelines.rebuilding import replace, spine
from keras_gpukit.input.pipelines.structure import Dataset
from keras_gpukit.input.pipelines.tf_private import anonymous_name

BATCHES_KEPT = 512
"""Number of batches per device whose times are kept: more than training takes between readings."""
_MARK = "_gpukit_feed"
_REQUESTED, _HANDED_OUT = 0, 1


class BatchTimes:
    """Times of the latest batches that the newest iterator over a pipeline took from it.

    Args:
        kept: Number of batches whose times are kept.
    """

    def __init__(self, kept: int) -> None:
        import tensorflow as tf

        self.kept = kept
        # For each batch two rows: when it was requested, and when it was handed out. A row holds
        # when the iterator began, which sets it apart, the batch's number, and the time.
        shape = [2 * kept, 3]
        self._handle = tf.raw_ops.VarHandleOp(
            dtype=tf.float64, shape=shape, shared_name=anonymous_name()
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


@dataclass(frozen=True)
class Feed:
    """Batches that the host hands out to devices.

    Attributes:
        times: When each of them was requested and handed out.
        devices: Number of devices, which receive the batches in turn.
        is_direct: Whether the device requests each batch itself, once it has the one before. If
            not, a buffer on the host lies between.
    """

    times: BatchTimes
    devices: int
    is_direct: bool


def buffering_devices(dataset: Dataset) -> list[str]:
    """Returns the devices that a dataset, distributed or not, keeps batches on, if not the host."""
    import tensorflow as tf

    if isinstance(dataset, tf.data.Dataset):
        last = spine(dataset)[-1]
        return [last._target_device] if kind(last) == "CopyToDevice" else []
    workers, options = getattr(dataset, "_input_workers", None), getattr(dataset, "_options", None)
    if workers is None or (options is not None and not options.experimental_fetch_to_device):
        return []
    return list(workers.compute_devices_for_worker(0))


def with_timed_feed(dataset: Dataset) -> Dataset:
    """Returns a dataset of `buffering_devices` that also notes the times of its batches.

    Raises:
        Exception: If its stages cannot be rebuilt.
    """
    import tensorflow as tf

    if isinstance(dataset, tf.data.Dataset):
        stage = spine(dataset)[-1]
        timed, times = with_batch_times(stage._input_dataset, BATCHES_KEPT)
        to_device = tf.data.experimental.copy_to_device(
            stage._target_device, stage._source_device_string
        )
        copied = timed.apply(to_device)
        with tf.device(stage._variant_tensor.device):
            made = replace(dataset, {id(stage): lambda below: copied})
        setattr(made, _MARK, Feed(times, devices=1, is_direct=True))
        return made
    (host,) = dataset._cloned_datasets
    devices = len(buffering_devices(dataset))
    timed, times = with_batch_times(host, BATCHES_KEPT * devices)
    setattr(timed, _MARK, Feed(times, devices, is_direct=False))
    made = copy.copy(dataset)
    made._cloned_datasets = [timed]
    return made


def feed_of(dataset: Any) -> Feed | None:
    """Returns the feed of a dataset that `with_timed_feed` made; None for other datasets."""
    return getattr(dataset, _MARK, None)


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
