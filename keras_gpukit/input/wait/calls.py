"""The buffer that the hot path fills: when each call of a step function was entered and left."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

NOTHING = object()
StepFunction = Callable[[Any], Any]


class CallTimes:
    """Calls of a step function, in one object that every call reads: a single cache line.

    Attributes:
        source: Source of the steps' batches, such as an iterator. It is kept alive only as long as
            steps run.
        times_s: Entry and exit times of the calls, in turn, from the first call of the window on.
        due_times: Length of `times_s` at which the meter must be read.
        due_s: Entry time of a call at which the meter must be read even if `times_s` is shorter.
        before: Number of calls before those in `times_s`.
        inside_s: Seconds from the entries of those calls to their exits.
    """

    __slots__ = (
        "before",
        "due_s",
        "due_times",
        "first_step",
        "inside_s",
        "source",
        "steps_per_execution",
        "times_s",
    )

    def __init__(self, steps_per_execution: int = 1, first_step: int = 0) -> None:
        self.steps_per_execution = steps_per_execution
        self.first_step = first_step
        self.source: Any = NOTHING
        self.times_s: list[float] = []
        self.before, self.inside_s = 0, 0.0
        self.drop()

    @property
    def count(self) -> int:
        """Number of all calls."""
        return self.before + len(self.times_s) // 2

    @property
    def steps(self) -> int:
        """Number of steps that ran, if data never ended within a call."""
        return self.count * self.steps_per_execution

    @property
    def step(self) -> int:
        """Global step."""
        return self.first_step + self.steps

    def drop(self, *, but: int = 0) -> None:
        """Removes all calls but the last ones from the buffer; the meter need not be read."""
        if len(self.times_s) % 2:
            self.times_s.pop()  # an interrupt came between the two times of a call
        end = max(len(self.times_s) - 2 * but, 0)
        gone_s, kept_s = self.times_s[:end], self.times_s[end:]
        before = self.before + end // 2
        inside_s = self.inside_s + sum(gone_s[1::2]) - sum(gone_s[::2])
        # At once, as no function is called in between: the sampling thread counts the calls.
        self.times_s, self.before, self.inside_s = kept_s, before, inside_s
        self.due_times: int = sys.maxsize
        self.due_s: float = math.inf


def is_end_of_data(error: BaseException) -> bool:
    """Whether a call raised an exception because the data have ended."""
    import tensorflow as tf

    return isinstance(error, (StopIteration, tf.errors.OutOfRangeError))
