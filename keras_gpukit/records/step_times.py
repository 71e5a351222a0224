"""Distribution of the times of single steps, and the slowest steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

BIN_GROWTH = 1.05
"""Each bin of the histogram is 5 % wider than the one before, so quantiles are accurate to 5 %."""


@dataclass(frozen=True)
class SlowStep:
    """One step; with several steps per execution, the mean of an execution."""

    step: int
    time_s: float
    duration_s: float
    wait_s: float | None = None


@dataclass(frozen=True)
class StepTimes:
    """Distribution of the step times of a phase, without the first step of each epoch.

    Attributes:
        counts: Number of steps in each bin. A bin's upper bound is `BIN_GROWTH` times its lower
            bound.
    """

    steps: int
    first_bin_s: float
    counts: tuple[int, ...]
    slowest: tuple[SlowStep, ...] = ()

    def quantile_s(self, share: float) -> float:
        """Returns the step time that a share of the steps does not exceed, accurate to 5 %."""
        below = 0
        for place, count in enumerate(self.counts):
            below += count
            if below >= share * self.steps:
                return self.first_bin_s * math.pow(BIN_GROWTH, place + 0.5)
        return self.first_bin_s
