"""95 % confidence intervals: of a median, of a mean, and of any estimate by resampling."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from keras_gpukit.records.diagnosis import Rate

CONFIDENCE = 0.95
RESAMPLES = 1000


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
    """Returns Student's t interval of the mean; it is infinite for a single value."""
    mean, freedom = statistics.fmean(values), len(values) - 1
    if not freedom:
        return -math.inf, math.inf
    half = student_t(freedom) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def resampled_interval(
    estimate: Callable[..., float], *samples: np.ndarray, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Returns the interval of an estimate from several independent samples (bootstrap).

    Args:
        estimate: Computes the estimate from one array per sample.
        *samples: Measured values; each array is resampled along its first axis.
        resamples: Number of resampled estimates from which the interval is taken.
    """
    random = np.random.default_rng(0)
    estimates = [
        estimate(*(random.choice(sample, len(sample)) for sample in samples))
        for _ in range(resamples)
    ]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(estimates, [tail, 1 - tail]).tolist()
    return low, high


@functools.cache
def student_t(freedom: int) -> float:
    """Returns the two-sided 95 % quantile of Student's t, for whole degrees of freedom."""
    # With t = sqrt(freedom) * tan(angle), the probability between -t and t rises with the angle.
    low, high = 0.0, math.pi / 2
    while True:
        angle = (low + high) / 2
        if angle in (low, high):
            return math.sqrt(freedom) * math.tan(angle)
        if _probability_within(angle, freedom) < CONFIDENCE:
            low = angle
        else:
            high = angle


def _probability_within(angle: float, freedom: int) -> float:
    """Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4."""
    odd = freedom % 2
    series, term = 0.0, math.cos(angle) if odd else 1.0
    for power in range(odd, freedom - 1, 2):
        series += term
        term *= math.cos(angle) ** 2 * (power + 1) / (power + 2)
    series *= math.sin(angle)
    return 2 / math.pi * (angle + series) if odd else series
