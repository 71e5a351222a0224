"""Random walks of memory are hardly ever taken for growth, and lines are."""

from __future__ import annotations

import itertools

import pytest
from random_walks import (
    EPOCHS,
    STEPS,
    is_growth_by_epochs,
    is_growth_over_time,
    line,
    share,
    walk,
)

from keras_gpukit.rules.memory.growth import MOST_CHANCE, chance_of_rise, steady_rise

SEEDS = range(120)


@pytest.mark.parametrize(
    ("judge", "counts"),
    [(is_growth_by_epochs, EPOCHS[:-1]), (is_growth_over_time, (20, 48))],
    ids=["by epochs", "over time"],
)
def test_of_random_walks_at_most_two_percent_are_growth(judge, counts):
    kinds = itertools.product(counts, STEPS)
    drawn = [walk(seed, count, kind) for count, kind in kinds for seed in SEEDS]
    assert share(judge, drawn) <= 0.02


@pytest.mark.parametrize(("count", "noise"), [(7, 0.1), (12, 0.1), (18, 0.5), (36, 1.0)])
def test_lines_with_noise_are_growth(count, noise):
    drawn = [line(seed, count, noise) for seed in SEEDS]
    assert share(is_growth_by_epochs, drawn) >= 0.95


def chance(*values: float) -> float:
    """Of readings that come evenly."""
    return chance_of_rise(list(enumerate(values)))


def test_the_chance_is_that_of_the_signed_rank_test():
    # Of six steps all must rise, or of 64 equally likely ways so many others rank as high.
    assert chance(0, 1, 3, 6, 10, 15, 21) == 1 / 64
    assert chance(0, -1, 1, 4, 8, 13, 19) == 2 / 64  # the smallest step falls
    assert chance(21, 15, 10, 6, 3, 1, 0) == 1.0
    assert chance(*[5.0] * 8) == 1.0  # nothing rises
    assert chance(*range(40)) < MOST_CHANCE == 1 / 64


def test_a_moment_that_falls_counts_for_no_more_where_readings_come_often():
    """The process of a step traced again in each epoch, in MiB: short epochs are read seldom."""
    epochs = [*range(3, 19), 24, 30, 36]
    at_first = [681.5, 683.9, 684.2, 686.2, 688.5, 688.8, 690.7, 693.1, 693.4, 695.3]
    later = [696.4, 698.7, 701.1, 701.5, 696.3, 697.8, 706.7, 714.5, 724.7]
    points = list(zip(epochs, [*at_first, *later], strict=True))
    assert chance_of_rise(points) <= MOST_CHANCE
    assert steady_rise([(epoch, int(value * 2**20)) for epoch, value in points], 32 * 2**20)
