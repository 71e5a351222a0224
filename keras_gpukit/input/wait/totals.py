"""Adds up the windows of a phase's steps, and makes its records, in fixed memory."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from keras_gpukit.input.wait.meters import Meter, PipelineStart, Times
from keras_gpukit.records.steps import (
    InputRecord,
    Phase,
    PipelineStartRecord,
    StepWindow,
    ThroughputRecord,
    WaitDistribution,
)
from keras_gpukit.rules.input.pipeline_causes import SHORTEST_WAIT_S
from keras_gpukit.rules.savings import WARNING_FRACTION

_SMALLEST_S, _LARGEST_S = 1e-6, 1e4
# Each bin is 5 % wider than the one before, so quantiles are accurate to 5 %.
_GROWTH = math.log(1.05)
_BINS = math.ceil(math.log(_LARGEST_S / _SMALLEST_S) / _GROWTH) + 1
# Bursts are regular if the standard deviation of the intervals between their starts is at most this
# share of the mean interval.
_REGULAR = 0.25
_FEWEST_INTERVALS = 3


def _counts_of(times_s: Times) -> np.ndarray:
    """Returns the number of times in each bin. Each bin is 5 % larger than the last."""
    # Training waits meanwhile, and the step has emptied the CPU caches: each NumPy call takes
    # several microseconds, and `np.clip` four times as long.
    bins = np.log(np.maximum(times_s, _SMALLEST_S) / _SMALLEST_S) / _GROWTH
    return np.bincount(np.minimum(bins, _BINS - 1).astype(np.int64), minlength=_BINS)


class WaitHistogram:
    """Histogram of the waits of a step function's calls, and statistics of their bursts.

    Each step of a call counts with an equal share of the call's wait.
    """

    def __init__(self, steps_per_call: int) -> None:
        self._steps_per_call = steps_per_call
        self._counts = np.zeros(_BINS, np.int64)
        self._worst_s = 0.0
        self._stalled = 0
        # A burst is one stalled call, or several in a row. `_began` is the number of the call that
        # began the last one; None before the first one and after a gap.
        self._calls = 0
        self._in_burst = False
        self._began: int | None = None
        self._intervals = np.zeros(3)  # between bursts: number, sum, sum of squares

    def add_waits(self, waits_s: Times, durations_s: Times) -> None:
        """Adds consecutive calls."""
        each_s = np.minimum(waits_s, durations_s) / self._steps_per_call
        counts = _counts_of(each_s)
        # First, since no quantile may be above it.
        self._worst_s = max(self._worst_s, float(each_s.max()))
        self._counts += counts
        # A step counts as stalled if a run of such steps would be reported as waiting for input.
        shortest_s = SHORTEST_WAIT_S * self._steps_per_call
        self._add_bursts((waits_s >= shortest_s) & (waits_s >= WARNING_FRACTION * durations_s))

    def _add_bursts(self, stalled: np.ndarray) -> None:
        before = np.concatenate(([self._in_burst], stalled[:-1]))
        begins = np.flatnonzero(stalled & ~before) + self._calls
        self._in_burst = bool(stalled[-1])
        self._calls += len(stalled)
        self._stalled += int(stalled.sum())
        if not len(begins):
            return
        known = begins if self._began is None else np.concatenate(([self._began], begins))
        intervals = np.diff(known).astype(float)
        self._intervals += (len(intervals), intervals.sum(), (intervals**2).sum())
        self._began = int(begins[-1])

    def gap(self) -> None:
        """Notes that the next call does not directly follow the previous one."""
        self._in_burst, self._began = False, None

    def distribution(self) -> WaitDistribution | None:
        """Returns the distribution; None if no single call's wait is known."""
        calls = int(self._counts.sum())
        if calls == 0:
            return None
        return WaitDistribution(
            median_s=self._quantile(0.5),
            p95_s=self._quantile(0.95),
            worst_s=self._worst_s,
            stalled_fraction=self._stalled / calls,
            burst_period_steps=self._period(),
        )

    def _quantile(self, share: float) -> float:
        filled = np.cumsum(self._counts)
        place = int(np.searchsorted(filled, share * filled[-1]))
        # The middle of the bin. Waits in the first one, of about 1 µs or less, count as 0.
        middle_s = _SMALLEST_S * math.exp((place + 0.5) * _GROWTH)
        return min(middle_s, self._worst_s) if place else 0.0

    def _period(self) -> float | None:
        count, total, squares = self._intervals.tolist()
        if count < _FEWEST_INTERVALS:
            return None
        mean = total / count
        deviation = math.sqrt(max(squares / count - mean**2, 0.0))
        return mean * self._steps_per_call if deviation <= _REGULAR * mean else None


NOT_COUNTED = (
    "the batch size is unknown, and train_step or test_step does not update the loss tracker with "
    "sample_weight=<batch size>"
)
MOST_LONGEST = 5
"""Maximum number of waits for first batches that are kept individually: the longest ones."""
TOO_SHORT = "no epoch had enough steps to measure, or all steps took 10 s or more"
ONLY_STARTS = (
    "only the first execution of each epoch was measured, whose wait counts as the pipeline's start"
)


class _Starts(NamedTuple):
    """Waits for first batches: their number, sum and longest ones.

    `known_wait_s` and `shuffle_s` are sums over the waits whose shuffle fraction is known.
    """

    epochs: int = 0
    wait_s: float = 0.0
    longest_s: tuple[float, ...] = ()
    known_wait_s: float = 0.0
    shuffle_s: float = 0.0

    def plus(self, start: PipelineStart) -> _Starts:
        """Adds a wait."""
        fraction = start.shuffle_fraction
        return _Starts(
            self.epochs + 1,
            self.wait_s + start.wait_s,
            tuple(heapq.nlargest(MOST_LONGEST, (*self.longest_s, start.wait_s))),
            self.known_wait_s + (0.0 if fraction is None else start.wait_s),
            self.shuffle_s + (fraction or 0.0) * start.wait_s,
        )

    def start_record(self) -> PipelineStartRecord | None:
        """Returns the means and the longest waits; None if no wait was measured."""
        if not self.epochs:
            return None
        mean_s = self.wait_s / self.epochs
        shuffle_s = mean_s * self.shuffle_s / self.known_wait_s if self.known_wait_s else None
        return PipelineStartRecord(self.epochs, mean_s, shuffle_s, longest_s=self.longest_s)


class StepTotals:
    """Adds up what the windows of a phase and their calls show, and makes the phase's records.

    `measured` adds the means over the phase's windows so far to a record: those of the run's fold,
    which also has them of a run in progress, or read from its file.
    """

    def __init__(
        self, phase: Phase, steps_per_execution: int, measured: Callable[[Any], Any]
    ) -> None:
        self.phase = phase
        self.steps_per_execution = steps_per_execution
        self._measured = measured
        self._waits = WaitHistogram(steps_per_execution)
        self._starts = _Starts()
        self._epochs = 0
        # Duration and wait of all epochs' windows but the first's, in one value that no interrupt
        # leaves half set. The fold does not know which epoch a window is of.
        self._later_s = 0.0, 0.0

    def begin_epoch(self) -> None:
        """Notes that the steps of another epoch start."""
        self._epochs += 1

    def add_window(self, window: StepWindow) -> None:
        """Adds a window."""
        if self._epochs > 1 and window.input_wait_s is not None:
            later_s, later_wait_s = self._later_s
            self._later_s = later_s + window.duration_s, later_wait_s + window.input_wait_s

    def add_calls(self, durations_s: Times, waits_s: Times | None) -> None:
        """Adds the calls of a window: their durations, and their waits if known, in seconds."""
        if waits_s is not None:
            self._waits.add_waits(waits_s, durations_s)

    def add_start(self, start: PipelineStart | None) -> None:
        """Notes that steps start, and adds the wait for the epoch's first batch if it counts."""
        self._waits.gap()
        if start is not None:
            self._starts = self._starts.plus(start)

    @property
    def starts(self) -> int:
        """Number of epochs whose wait for the first batch counts as their start."""
        return self._starts.epochs

    @property
    def step_time_s(self) -> float | None:
        """Mean step time in seconds; None before the first window."""
        return self.throughput(0, None).step_time_s

    def throughput(self, steps: int, wall_s: float | None) -> ThroughputRecord:
        """Returns step times and rates."""
        record: ThroughputRecord = self._measured(
            ThroughputRecord(self.phase, steps, 0, None, None, wall_s)
        )
        is_unknown = record.measured_steps and record.examples_per_s is None
        return replace(record, examples_unknown_because=NOT_COUNTED if is_unknown else None)

    def input(self, meter: Meter | None, unknown_because: str | None) -> InputRecord:
        """Returns the input wait; the meter is that of the latest pipeline."""
        (later_s, later_wait_s), start = self._later_s, self._starts.start_record()
        reason = unknown_because or (TOO_SHORT if start is None else ONLY_STARTS)
        record: InputRecord = self._measured(
            InputRecord(
                self.phase,
                meter.mechanism if meter else None,
                meter.confidence if meter else None,
                unknown_because=reason,
                pipeline_start=start,
            )
        )
        if not record.measured_steps:
            return replace(record, confidence=None)
        return replace(
            record,
            later_stall_fraction=later_wait_s / later_s if later_s else None,
            distribution=self._waits.distribution(),
        )
