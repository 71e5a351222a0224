"""What a model would gain if its input were free."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Cause = Literal["cores", "interpreter", "nothing ahead"]


@dataclass(frozen=True)
class Rate:
    """A rate that was measured in several rounds.

    Lowest and highest round are an interval of the true median too: each round is as likely above
    it as below, so of n rounds all lie on one side of it with probability 2^(1-n); of six rounds
    in one case of 32 (the sign test's interval, free of any assumption on the noise).

    Attributes:
        median: The median of the rounds.
        low: The lowest round.
        high: The highest round.
        unit: What is counted.
    """

    median: float
    low: float
    high: float
    unit: str = "batches/s"

    @classmethod
    def of(cls, rounds: Sequence[float], unit: str = "batches/s") -> Rate:
        """Sums rounds up."""
        return cls(statistics.median(rounds), min(rounds), max(rounds), unit)
