"""Measures the input wait where the last buffers are on other devices, from each batch's times.

tf.data's model of an iterator on a GPU cannot be read. But the pipeline that feeds it runs on the
host, and notes when each batch was handed out. A step that was entered before its batch was handed
out waited for it. The batch's copy to the device is not counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_gpukit.input.pipelines.device_buffers import Feed
from keras_gpukit.input.wait.meters import CallWindow, PipelineStart, Times, WaitReading
from keras_gpukit.records.steps import Confidence, Mechanism

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
        """Returns the current times of the batches, which `read` evaluates."""
        taken = _Taken(
            self._feed.times.take(),
            self._calls() - self._calls_before,
            time.perf_counter(),
            time.time(),
        )
        self._first = self._first or taken
        return taken

    def start(self, taken: _Taken | None, first: CallWindow) -> PipelineStart | None:
        """Starts a stretch; returns the wait for the first batch, or None if unknown."""
        is_new, self._is_new = self._is_new, False
        if not is_new:
            return None
        handed_out_s = self._handed_out_s(taken or self._first or self.take(), 0, 1)
        wait_s = float(_waits_s(handed_out_s, first.entries_s[:1], first.exits_s[:1])[0])
        return None if math.isnan(wait_s) else PipelineStart(wait_s, shuffle_fraction=None)

    def read(self, taken: Sequence[_Taken], stretch: CallWindow) -> WaitReading:
        """Returns the wait of a stretch, and starts the next one."""
        if self._steps_per_execution > 1:
            return WaitReading(None, unknown_because=SEVERAL_STEPS)
        ends = [each.calls - 1 for each in taken]  # the call after the stretch is another one's
        begins = [ends[-1] - stretch.calls, *ends]
        parts = [self._handed_out_s(*each) for each in zip(taken, begins, ends, strict=False)]
        waits_s = _waits_s(np.concatenate(parts), stretch.entries_s[:-1], stretch.exits_s)
        wait_s = float(waits_s.sum())
        if math.isnan(wait_s):
            return WaitReading(None, unknown_because=NOT_KEPT)
        return WaitReading(wait_s, waits_s)

    def _handed_out_s(self, taken: _Taken, begin: int, end: int) -> Times:
        """Returns when the last device's batch of each call was handed out; NaN where unknown."""
        last = (np.arange(begin, end) + 1) * self._feed.devices - 1
        return self._feed.times.times_s(taken.table, last) + (taken.now_s - taken.unix_s)


def _waits_s(handed_out_s: Times, entries_s: Times, exits_s: Times) -> Times:
    return np.clip(handed_out_s - entries_s, 0.0, exits_s - entries_s)
