"""The calls of a step function, and the first ones over a pipeline one by one."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from keras_gpukit.input_wait.examples import Counts, ExampleCounter
from keras_gpukit.input_wait.meters import Meter, PipelineStart, Times

NOTHING = object()


class Calls:
    """What each call of a step function reads, in one object: a single cache line.

    Attributes:
        source: What steps are fed from, kept alive only while they are.
        times_s: When calls were entered and left, in turn, since the window began, the call it
            began with included.
        due_times: The meter is due when there are so many times,
        due_s: or when a call is entered so late.
        before: Calls before those whose times are here.
    """

    __slots__ = ("before", "due_s", "due_times", "source", "times_s")

    def __init__(self) -> None:
        self.source: Any = NOTHING
        self.before = 0
        self.forget()

    @property
    def count(self) -> int:
        """All calls."""
        return self.before + len(self.times_s) // 2

    def forget(self) -> None:
        """Drops the times."""
        self.times_s: list[float] = []
        self.due_times: int = sys.maxsize
        self.due_s: float = math.inf


class FirstCalls:
    """Notes what each of an epoch's first two calls waited, where its meter knows that.

    A window ends at the entry of the call after its last one. Short epochs have no such call: the
    first one waits for the pipeline's start, and is in no window.

    Args:
        examples: Counts examples; None where they are not counted.
    """

    def __init__(self, examples: ExampleCounter | None) -> None:
        self._counter = examples
        self.begin(None)

    def begin(self, meter: Meter | None) -> None:
        """The first call is to come.

        Args:
            meter: The pipeline's; None without one, or if no more calls are to be noted.
        """
        self._meter = meter
        self._waited_s = None if meter is None else meter.waited_s()
        self._entries_s: list[float] = []
        self._waits_s: list[float] = []
        self._counts: list[Counts] = []
        self._end_s = 0.0
        if self._waited_s is not None:
            self._count()

    def note(self, entry_s: float, exit_s: float) -> None:
        """A call ended."""
        waited_s = None if self._meter is None else self._meter.waited_s()
        if waited_s is None or self._waited_s is None:
            return
        self._entries_s.append(entry_s)
        self._waits_s.append(min(waited_s - self._waited_s, exit_s - entry_s))
        self._count()
        self._waited_s, self._end_s = waited_s, exit_s

    @property
    def count(self) -> int:
        """Calls whose waits are known."""
        return len(self._waits_s)

    @property
    def start(self) -> PipelineStart | None:
        """The first call's wait, if the pipeline began with it."""
        return PipelineStart(self._waits_s[0], shuffle_fraction=None) if self._waits_s else None

    def times_since(self, first: int) -> tuple[float, Times, Times]:
        """Returns when a call was entered, and of it and those after it durations and waits.

        A duration ends at the next call's entry, and the last one's at its own end.
        """
        ends_s = [*self._entries_s[first + 1 :], self._end_s]
        durations_s = np.array(ends_s) - self._entries_s[first:]
        return self._entries_s[first], durations_s, np.array(self._waits_s[first:])

    def examples_since(self, first: int) -> int | None:
        """Returns the examples of the calls from one on; None if unknown."""
        if self._counter is None:
            return None
        return self._counter.between(self._counts[first], self._counts[-1], self.count - first)

    def _count(self) -> None:
        if self._counter is not None:
            self._counts.append(self._counter.take())


def is_end_of_data(error: BaseException) -> bool:
    """Whether a call raised because its data have ended."""
    import tensorflow as tf

    return isinstance(error, (StopIteration, tf.errors.OutOfRangeError))
