"""95 % confidence intervals: of a median and of a mean."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.rules.comparing.intervals import student

CONFIDENCE = 0.95


def summarize(rounds: Sequence[float], unit: str = "batches/s") -> Rate:
    """Returns the median of the rounds' rates with its confidence interval."""
    return Rate(statistics.median(rounds), *median_interval(rounds), unit)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the confidence interval of the median, for any distribution (sign test).

    A value is as likely above the true median as below it, so the number of values on one side
    follows the binomial distribution. For five values or fewer, the interval is their whole range.
    Its confidence is then below 95 %: 94 % for five values, 75 % for three.
    """
    ordered = sorted(values)
    count, outside, tail = len(ordered), 0, 1 / 2 ** len(ordered)
    while True:
        tail += math.comb(count, outside + 1) / 2**count
        if 2 * tail > 1 - CONFIDENCE:
            return ordered[outside], ordered[-1 - outside]
        outside += 1


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns Student's t interval of the mean of several values; it is infinite for one value."""
    mean, freedom = statistics.fmean(values), len(values) - 1
    if not freedom:
        return -math.inf, math.inf
    half = student(freedom) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half
