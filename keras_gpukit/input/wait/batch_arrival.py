"""Measures the input wait where the last buffers are on other devices, from each batch's times.

`prefetch_to_device` and strategies with several devices fetch batches on the host, copy them, and
keep some on each device, where tf.data's model cannot be read. A stage before the copy notes when
each batch was handed out, on tf.data's own threads: training does not wait for it, and elements,
their order and the number of batches made ahead stay the same. A step that was entered before its
batch was handed out waited for it. The batch's copy to the device is not counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_gpukit.frameworks.tf_datasets import Dataset, input_of, kind, setting
from keras_gpukit.frameworks.tf_runtime import anonymous_name, devices_fed_by, with_host_dataset
from keras_gpukit.input.pipelines.rebuilding import (
    replace,
    spine,
    with_prefetch_of_its_own,
    without_further_prefetch,
)
from keras_gpukit.input.wait.meters import CallWindow, PipelineStart, Times, WaitReading
from keras_gpukit.records.steps import Confidence, Mechanism

BATCHES_KEPT = 512
"""Number of batches per device whose times are kept: more than training takes between readings."""
_MARK = "_gpukit_feed"


class Feed:
    """Batches that the host hands out to a number of devices, in turn.

    It has the times of the latest ones that the newest iterator over the pipeline took.
    """

    def __init__(self, devices: int) -> None:
        import tensorflow as tf

        self.devices = devices
        self.kept = kept = BATCHES_KEPT * devices
        # A row: when the iterator began, which sets it apart, the batch's number, and the time.
        shape = [kept, 3]
        self._handle = tf.raw_ops.VarHandleOp(
            dtype=tf.float64, shape=shape, shared_name=anonymous_name()
        )
        nothing = tf.fill(shape, tf.constant(-1, tf.float64))
        tf.raw_ops.AssignVariableOp(resource=self._handle, value=nothing)

    def note(self, began_s: Any, batch: Any) -> None:
        """Makes the operation, in a function of the pipeline, that writes the current time."""
        import tensorflow as tf

        row = tf.stack([began_s, tf.cast(batch, tf.float64), tf.timestamp()])
        tf.raw_ops.ResourceScatterUpdate(
            resource=self._handle, indices=batch % self.kept, updates=row
        )

    def take(self) -> Any:
        """Returns the table as it is now, as a tensor; takes some 10 µs."""
        import tensorflow as tf

        return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=tf.float64)

    def times_s(self, taken: Any, batches: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Returns when batches, numbered from 0, were handed out, from a result of `take`.

        In seconds since the Unix epoch; NaN where unknown. Shape (batches,).
        """
        table = taken.numpy()
        rows = table[batches % self.kept]
        is_known = (rows[:, 0] == table[:, 0].max()) & (rows[:, 1] == batches)
        return np.where(is_known, rows[:, 2], np.nan)


def buffering_devices(dataset: Dataset) -> list[str]:
    """Returns the devices that a dataset, distributed or not, keeps batches on, if not the host."""
    import tensorflow as tf

    if isinstance(dataset, tf.data.Dataset):
        last = spine(dataset)[-1]
        return [setting(last, "target_device")] if kind(last) == "CopyToDevice" else []
    return devices_fed_by(dataset)


def with_timed_feed(dataset: Dataset) -> Dataset:
    """Returns a dataset of `buffering_devices` that also notes the times of its batches.

    Raises if its stages cannot be rebuilt.
    """
    import tensorflow as tf

    if isinstance(dataset, tf.data.Dataset):
        stage = spine(dataset)[-1]
        timed, feed = with_batch_times(input_of(stage), devices=1)
        to_device = tf.data.experimental.copy_to_device(
            setting(stage, "target_device"), setting(stage, "source_device_string")
        )
        copied = timed.apply(to_device)
        with tf.device(setting(stage, "variant_tensor").device):
            made = replace(dataset, {id(stage): lambda below: copied})
        setattr(made, _MARK, feed)
        return made

    def timed_host(host: Dataset) -> Dataset:
        timed, feed = with_batch_times(host, len(buffering_devices(dataset)))
        setattr(timed, _MARK, feed)
        return timed

    return with_host_dataset(dataset, timed_host)


def feed_of(dataset: Any) -> Feed | None:
    """Returns the feed of a dataset that `with_timed_feed` made; None for other datasets."""
    return getattr(dataset, _MARK, None)


def with_batch_times(dataset: Dataset, devices: int) -> tuple[Dataset, Feed]:
    """Returns the dataset with stages that note the times of its batches, and its feed.

    Raises ValueError if the options of an autotuned dataset ask for a prefetch.
    """
    import tensorflow as tf

    def hand_out(number: Any, batch: Any) -> Any:
        # With a side effect, TensorFlow does not make this stage run ahead in parallel.
        feed.note(*number)
        return batch

    with tf.device("CPU:0"):
        feed = Feed(devices)
        numbers = (
            tf.data.Dataset.from_tensors(0)
            .map(lambda _: tf.timestamp())  # once per iterator
            .flat_map(lambda began_s: tf.data.Dataset.counter().map(lambda at: (began_s, at)))
            .repeat()  # tf.data cannot tell that it is endless already
        )
        timed = tf.data.Dataset.zip(numbers, with_prefetch_of_its_own(dataset)).map(hand_out)
        return without_further_prefetch(timed), feed


SEVERAL_STEPS = "one execution runs several steps, and batches are buffered on a GPU"
NOT_KEPT = "the times of the batches were not found, as if other code read the dataset too"


class _Taken(NamedTuple):
    table: Any
    calls: int
    now_s: float
    unix_s: float


class BatchArrivalMeter:
    """Compares when steps were entered with when their batches were handed out."""

    mechanism: Mechanism = "batch arrival"
    confidence: Confidence = "sampled"
    reads_early = False

    def __init__(self, feed: Feed, calls: Callable[[], int], steps_per_execution: int) -> None:
        self._feed = feed
        self._calls = calls
        self._steps_per_execution = steps_per_execution
        self._calls_before = calls()
        self._is_new = True
        self._first: _Taken | None = None

    def waited_s(self) -> None:
        """Returns None, since it is unknown which batch a call has fetched until later."""

    def take(self) -> _Taken:
        """Returns the current times of the batches, which `wait_of` evaluates."""
        taken = _Taken(
            self._feed.take(),
            self._calls() - self._calls_before,
            time.perf_counter(),
            time.time(),
        )
        self._first = self._first or taken
        return taken

    def start(self, taken: _Taken | None, first: CallWindow) -> PipelineStart | None:
        """Starts a window; returns the wait for the first batch, or None if unknown."""
        is_new, self._is_new = self._is_new, False
        if not is_new:
            return None
        handed_out_s = self._handed_out_s(taken or self._first or self.take(), 0, 1)
        wait_s = float(_waits_s(handed_out_s, first.entries_s[:1], first.exits_s[:1])[0])
        return None if math.isnan(wait_s) else PipelineStart(wait_s, shuffle_fraction=None)

    def wait_of(self, taken: Sequence[_Taken], window: CallWindow) -> WaitReading:
        """Returns the wait of a window, and starts the next one."""
        if self._steps_per_execution > 1:
            return WaitReading(None, unknown_because=SEVERAL_STEPS)
        ends = [sample.calls - 1 for sample in taken]  # the call after the window is another one's
        begins = [ends[-1] - window.calls, *ends]
        parts = [self._handed_out_s(*span) for span in zip(taken, begins, ends, strict=False)]
        waits_s = _waits_s(np.concatenate(parts), window.entries_s[:-1], window.exits_s)
        wait_s = float(waits_s.sum())
        if math.isnan(wait_s):
            return WaitReading(None, unknown_because=NOT_KEPT)
        return WaitReading(wait_s, waits_s)

    def _handed_out_s(self, taken: _Taken, begin: int, end: int) -> Times:
        """Returns when the last device's batch of each call was handed out; NaN where unknown."""
        last = (np.arange(begin, end) + 1) * self._feed.devices - 1
        return self._feed.times_s(taken.table, last) + (taken.now_s - taken.unix_s)


def _waits_s(handed_out_s: Times, entries_s: Times, exits_s: Times) -> Times:
    return np.clip(handed_out_s - entries_s, 0.0, exits_s - entries_s)
