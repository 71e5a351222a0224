"""Pipelines whose last buffers are on other devices, and the times of the batches they are fed.

`prefetch_to_device` and strategies with several devices fetch batches on the host, copy them, and
keep some on each device.

Private names, seen on TensorFlow 2.21: `_CopyToDeviceDataset._target_device`,
`._source_device_string` and `._input_dataset`, `DatasetV2._variant_tensor`, and
`DistributedDataset._input_workers`, `._options` and `._cloned_datasets`. If one is missing, the
times of such batches are unknown.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from keras_gpukit.input.pipelines.batch_times import BatchTimes, with_batch_times
from keras_gpukit.input.pipelines.kinds import kind
from keras_gpukit.input.pipelines.rebuilding import replace, spine
from keras_gpukit.input.pipelines.structure import Dataset

BATCHES_KEPT = 512
"""Number of batches per device whose times are kept: more than training takes between readings."""
_MARK = "_gpukit_feed"


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
