"""Reads two pipelines in turn, so that other work on the machine slows both equally."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

from keras_gpukit.trials.measuring.intervals import mean_interval

Read = Callable[[], float]
"""Function that starts a pipeline, reads it briefly, and returns its rate in batches/s."""

LEAST, MOST = 4, 20
"""The smallest and the largest number of rounds."""

# exp() of a larger exponent overflows.
LARGEST_EXPONENT = 700.0


class Gain:
    """Ratio of the rates of two pipelines, from rounds that each measure both."""

    def __init__(self) -> None:
        self.before: list[float] = []
        """Rates of the first pipeline, in batches/s."""
        self.after: list[float] = []
        """Rates of the second pipeline, in batches/s."""

    @property
    def gain(self) -> float:
        """Geometric mean of the rounds' ratios (second pipeline over first)."""
        return math.exp(statistics.fmean(self._logarithms))

    @property
    def low(self) -> float:
        """Lower end of the gain's 95 % interval (Student's t interval of the logarithms)."""
        return math.exp(mean_interval(self._logarithms)[0])

    @property
    def high(self) -> float:
        """Upper end of the gain's 95 % interval."""
        return math.exp(min(mean_interval(self._logarithms)[1], LARGEST_EXPONENT))

    @property
    def _logarithms(self) -> list[float]:
        pairs = zip(self.before, self.after, strict=True)
        return [math.log(after / before) for before, after in pairs]


def compare(before: Read, after: Read, *, threshold: float, seconds: float) -> Gain:
    """Reads two pipelines in turn until it is clear whether the second is faster.

    Args:
        before: Reads the unchanged pipeline.
        after: Reads the changed pipeline.
        threshold: Gain to decide on. Rounds end once the interval is entirely above or below it.
        seconds: Seconds after which no further round starts. The minimum number of rounds always
            runs.
    """
    ends = time.perf_counter() + seconds
    found = Gain()
    turns = [(before, found.before), (after, found.after)]
    while len(found.before) < MOST:
        for read, rates in turns:
            rates.append(read())
        # Alternate the order, since the first pipeline may leave caches warm for the second.
        turns.reverse()
        clear = found.low > threshold or found.high < threshold
        if len(found.before) >= LEAST and (clear or time.perf_counter() >= ends):
            break
    return found
