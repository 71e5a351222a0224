"""Whether a change is outside the noise, on windows with given noise."""

from __future__ import annotations

import math
import random

import pytest

from keras_gpukit.rules.comparing.intervals import difference, estimate, relative_change, student

PAIRS = 300


def windows(rng: random.Random, mean: float, count: int, noise: float, correlation: float):
    """Windows whose noise goes on from one to the next, drifting, of a run as good as another."""
    mean *= 1 + rng.gauss(0, 0.01)
    drift, state = rng.uniform(-0.02, 0.02), rng.gauss(0, 1)
    for place in range(count):
        state = correlation * state + math.sqrt(1 - correlation**2) * rng.gauss(0, 1)
        yield mean * (1 + noise * state + drift * (place / count - 0.5))


def called(slower: float, count: int, noise: float, correlation: float) -> float:
    """The share of pairs that are called different, in the direction of the slowdown if any."""
    rng, number = random.Random(0), 0
    for _ in range(PAIRS):
        a, b = (
            estimate(list(windows(rng, mean, count, noise, correlation)), [30.0] * count)
            for mean in (0.05, 0.05 * (1 + slower))
        )
        _, low, high = relative_change(a, b)
        number += low > 0 or (high < 0 and not slower)
    return number / PAIRS


@pytest.mark.parametrize(
    ("count", "noise", "correlation"),
    [(16, 0.02, 0.0), (16, 0.03, 0.5), (30, 0.05, 0.5), (128, 0.05, 0.7)],
)
def test_runs_that_are_equal_are_rarely_called_different(count, noise, correlation):
    assert called(0.0, count, noise, correlation) <= 0.05


@pytest.mark.parametrize(
    ("count", "noise", "correlation", "least"),
    [(16, 0.02, 0.0, 0.98), (30, 0.02, 0.5, 0.98), (128, 0.05, 0.5, 0.95)],
)
def test_a_slowdown_of_a_tenth_is_found(count, noise, correlation, least):
    assert called(0.1, count, noise, correlation) >= least


def test_correlated_windows_say_less_than_independent_ones():
    rng = random.Random(3)
    independent = [rng.gauss(1, 0.1) for _ in range(100)]
    correlated = sorted(independent[20:])
    weights = [1.0] * 100
    assert estimate([*independent[:20], *correlated], weights).error > 3 * (
        estimate(independent, weights).error
    )


def test_the_warm_up_is_left_out_and_long_windows_weigh_more():
    assert estimate([9.0] * 2 + [1.0] * 8, [1.0] * 10).mean == 1.0
    assert estimate([0.0] * 2 + [1.0, 4.0] * 4, [1.0] * 2 + [2.0, 1.0] * 4).mean == 2.0


def test_too_few_windows_have_no_interval():
    assert estimate([1.0] * 9, [1.0] * 9) is None
    assert estimate([1.0] * 10, [1.0] * 10) is not None
    assert estimate([1.0] * 10, [-1.0] * 10) is None  # as of a damaged file


def test_without_noise_only_the_variation_between_runs_is_left():
    one = estimate([1.0] * 20, [1.0] * 20)
    assert relative_change(one, one._replace(mean=1.1)) == pytest.approx(
        (0.1, 0.055, 0.147), abs=2e-3
    )
    share = one._replace(mean=0.2)
    assert difference(share, share) == pytest.approx((0.0, -0.0416, 0.0416), abs=1e-3)
    assert relative_change(one._replace(mean=0.0), one) is None


def test_students_quantiles_are_those_of_its_table():
    for freedom, quantile in ((1, 12.706), (4.9, 2.776), (19, 2.093), (20, 2.086), (60, 2.0)):
        assert student(freedom) == pytest.approx(quantile, rel=2e-3)
