"""Times of a step function's calls, and the waits of the first calls over a pipeline."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from keras_gpukit.input.wait.examples import Counts, ExampleCounter
from keras_gpukit.input.wait.meters import Meter, PipelineStart, Times

NOTHING = object()


class Calls:
    """State that every call of a step function reads, in one object: a single cache line.

    Attributes:
        source: Source of the steps' batches, such as an iterator. It is kept alive only as long as
            steps run.
        times_s: Entry and exit times of the calls, in turn, from the first call of the window on.
        due_times: Length of `times_s` at which the meter must be read.
        due_s: Entry time of a call at which the meter must be read even if `times_s` is shorter.
        before: Number of calls before those in `times_s`.
    """

    __slots__ = ("before", "due_s", "due_times", "source", "times_s")

    def __init__(self) -> None:
        self.source: Any = NOTHING
        self.keep([], 0)

    @property
    def count(self) -> int:
        """Number of all calls."""
        return self.before + len(self.times_s) // 2

    def keep(self, times_s: list[float], before: int) -> None:
        """Sets the times and the number of calls before them; the meter need not be read.

        Both are set at once, as no function is called in between: the sampling thread counts them.
        """
        self.times_s, self.before = times_s, before
        self.due_times: int = sys.maxsize
        self.due_s: float = math.inf


class _Call(NamedTuple):
    entry_s: float
    exit_s: float
    wait_s: float
    counts: Counts


class FirstCalls:
    """Records the wait of each of an epoch's first two calls, if the meter knows it.

    An epoch of one or two calls has no regular window: the first call, which waits for the
    pipeline's start, is in no window, and a window only ends when the call after it is entered.

    Args:
        examples: Counts examples; None if they are not counted.
        meter: Meter of the pipeline; None without one, or if no calls are to be recorded.
    """

    def __init__(self, examples: ExampleCounter | None, meter: Meter | None) -> None:
        self._counter = examples
        self._meter = meter
        self._waited_s = None if meter is None else meter.waited_s()
        self._counts = () if self._waited_s is None else self._count()
        self._calls: tuple[_Call, ...] = ()

    def note(self, entry_s: float, exit_s: float) -> None:
        """Records a call that has ended, if its wait is known."""
        waited_s = None if self._meter is None else self._meter.waited_s()
        if waited_s is None or self._waited_s is None:
            return
        wait_s = min(waited_s - self._waited_s, exit_s - entry_s)
        self._calls = (*self._calls, _Call(entry_s, exit_s, wait_s, self._count()))
        self._waited_s = waited_s

    @property
    def count(self) -> int:
        """Number of calls whose waits are known."""
        return len(self._calls)

    @property
    def start(self) -> PipelineStart | None:
        """Wait of the first call, as the start of a pipeline; None if unknown."""
        return PipelineStart(self._calls[0].wait_s, shuffle_fraction=None) if self._calls else None

    def times_since(self, first: int) -> tuple[float, Times, Times]:
        """Returns the entry time of a call, and the durations and waits from that call on.

        A duration ends at the next call's entry; that of the last call ends when it returns.

        Args:
            first: Index of the call, 0 for the first one.
        """
        calls = self._calls[first:]
        times_s = np.array([*(call.entry_s for call in calls), calls[-1].exit_s])
        return calls[0].entry_s, np.diff(times_s), np.array([call.wait_s for call in calls])

    def examples_since(self, first: int) -> int | None:
        """Returns the number of examples of the calls from an index on; None if unknown."""
        if self._counter is None:
            return None
        counts = [self._counts, *(call.counts for call in self._calls)]
        return self._counter.between(counts[first], counts[-1], self.count - first, full=False)

    def _count(self) -> Counts:
        return () if self._counter is None else self._counter.take()


def is_end_of_data(error: BaseException) -> bool:
    """Whether a call raised an exception because the data have ended."""
    import tensorflow as tf

    return isinstance(error, (StopIteration, tf.errors.OutOfRangeError))
