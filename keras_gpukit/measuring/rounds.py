"""Two pipelines read in turn, so that what else the machine does slows both alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

Read = Callable[[], float]
"""Begins a pipeline, reads it for a moment, and returns its rate in batches a second."""

LEAST, MOST = 4, 20
"""Rounds at least, and at most."""

# Student's t for a two-sided 95 % interval, by degrees of freedom.
_T = (
    *(math.inf, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262),
    *(2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093),
)


class Gain:
    """Ratio of two rates, from rounds in each of which both were measured."""

    def __init__(self) -> None:
        self.before: list[float] = []
        """Rates of the first pipeline, in batches a second."""
        self.after: list[float] = []
        """Rates of the second."""

    @property
    def gain(self) -> float:
        """Geometric mean of the rounds' ratios."""
        return math.exp(statistics.fmean(self._logarithms))

    @property
    def low(self) -> float:
        """Lower end of the gain's 95 % interval: Student's, of the ratios' logarithms."""
        return self.gain / self._spread

    @property
    def high(self) -> float:
        """Upper end."""
        return self.gain * self._spread

    @property
    def _logarithms(self) -> list[float]:
        pairs = zip(self.before, self.after, strict=True)
        return [math.log(after / before) for before, after in pairs]

    @property
    def _spread(self) -> float:
        rounds = len(self.before)
        if rounds < 2:
            return math.inf
        error = statistics.stdev(self._logarithms) / math.sqrt(rounds)
        return math.exp(min(_T[rounds - 1] * error, 700.0))


def compare(before: Read, after: Read, *, threshold: float, seconds: float) -> Gain:
    """Reads two pipelines in turn, until it is clear whether the second is faster.

    Args:
        before: Reads the pipeline as it is.
        after: Reads the changed one.
        threshold: The gain in question: once the interval is on one side of it, rounds end.
        seconds: Time after which no further round begins; the least number of rounds runs anyhow.
    """
    ends = time.perf_counter() + seconds
    found = Gain()
    turns = [(before, found.before), (after, found.after)]
    while len(found.before) < MOST:
        for read, rates in turns:
            rates.append(read())
        # The other one first next time: what is read before may leave the machine warmer.
        turns.reverse()
        clear = found.low > threshold or found.high < threshold
        if len(found.before) >= LEAST and (clear or time.perf_counter() >= ends):
            break
    return found
