"""How the times of single steps are distributed, and which steps were the slowest."""

from __future__ import annotations

import math
from dataclasses import dataclass

BIN_GROWTH = 1.05
"""Each bin of the histogram is 5 % wider than the one before: a quantile is known to 5 %."""


@dataclass(frozen=True)
class SlowStep:
    """One step; of several steps in one execution, the execution's mean.

    Attributes:
        step: Global step.
        time_s: When it began, in seconds since the Unix epoch.
        duration_s: Until the next one began.
        wait_s: What it waited for its batch; None where that is not known.
    """

    step: int
    time_s: float
    duration_s: float
    wait_s: float | None = None


@dataclass(frozen=True)
class StepTimes:
    """The step times of a phase, without the first step of each epoch.

    Attributes:
        steps: Measured steps.
        first_bin_s: Where the first bin begins.
        counts: Steps in each bin; a bin ends `BIN_GROWTH` times as late as it begins.
        slowest: The slowest first.
    """

    steps: int
    first_bin_s: float
    counts: tuple[int, ...]
    slowest: tuple[SlowStep, ...] = ()

    def quantile_s(self, share: float) -> float:
        """The step time that a share of the steps does not exceed, to 5 %."""
        below = 0
        for place, count in enumerate(self.counts):
            below += count
            if below >= share * self.steps:
                return self.first_bin_s * math.pow(BIN_GROWTH, place + 0.5)
        return self.first_bin_s
