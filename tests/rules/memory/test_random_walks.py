"""Random walks of memory are hardly ever taken for growth, and lines are."""

from __future__ import annotations

import itertools
import random

import pytest

from keras_gpukit.records import HOST_MEMORY, Environment, RunSummary, Series
from keras_gpukit.rules.memory.growth import (
    LEAST_PROCESS_BYTES,
    growths_over_time,
    rises_evenly,
    steady_rise,
)

SEEDS = range(120)
EPOCHS = (7, 8, 12, 18, 36)
MIB = 2**20
START_BYTES, STEP_BYTES = 2048 * MIB, 64 * MIB
STEPS = {
    "normal": lambda draw: draw.gauss(0, 1),
    "up or down": lambda draw: draw.choice((-1.0, 1.0)),
    "heavy tails": lambda draw: draw.gauss(0, 1) / max(draw.random(), 0.05),
    "seldom": lambda draw: draw.gauss(0, 1) if draw.random() < 0.3 else 0.0,
}


def walk(seed, count, kind):
    """A walk's levels in bytes."""
    draw = random.Random(f"{kind} {count} {seed}")
    steps = (STEP_BYTES * STEPS[kind](draw) for _ in range(count - 1))
    return list(itertools.accumulate(steps, initial=float(START_BYTES)))


def line(seed, count, noise):
    """Levels that rise by as much in each epoch, but for noise."""
    draw = random.Random(f"line {noise} {count} {seed}")
    return [START_BYTES + STEP_BYTES * (epoch + noise * draw.gauss(0, 1)) for epoch in range(count)]


def is_growth_by_epochs(levels):
    return steady_rise(list(enumerate(map(int, levels), 3)), LEAST_PROCESS_BYTES) is not None


def is_growth_over_time(levels):
    places = tuple(range(len(levels)))
    # What a process holds is more than nothing.
    levels = tuple(max(level, 64.0 * MIB) for level in levels)
    series = Series(HOST_MEMORY, places, tuple(map(float, places)), levels, (1.0,) * len(levels))
    return bool(growths_over_time(RunSummary(Environment({}), series=(series,))))


def share(judge, drawn):
    return sum(map(judge, drawn)) / len(drawn)


@pytest.mark.parametrize(
    ("judge", "counts"),
    [(is_growth_by_epochs, EPOCHS), (is_growth_over_time, (20, 48))],
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


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0, 1, 3, 6, 10, 15, 21), True),
        ((0, -1, 1, 4, 8, 13, 19), False),  # of six differences none may be a fall
        ((0, -1, 1, 4, 8, 13, 19, 26), True),  # of seven the smallest may
        ((0, 1, -1, 4, 8, 13, 19, 26), False),
        ((21, 15, 10, 6, 3, 1, 0), False),
        ((5,) * 8, False),
        (range(40), True),
    ],
)
def test_only_the_smallest_differences_may_be_falls(values, expected):
    assert rises_evenly(list(enumerate(values))) is expected


def test_a_moment_that_falls_counts_for_no_more_where_readings_come_often():
    """The process of a step traced again in each epoch, in MiB: short epochs are read seldom."""
    epochs = [*range(3, 19), 24, 30, 36]
    at_first = [681.5, 683.9, 684.2, 686.2, 688.5, 688.8, 690.7, 693.1, 693.4, 695.3]
    later = [696.4, 698.7, 701.1, 701.5, 696.3, 697.8, 706.7, 714.5, 724.7]
    points = list(zip(epochs, [*at_first, *later], strict=True))
    assert rises_evenly(points)
    assert steady_rise([(epoch, int(value * 2**20)) for epoch, value in points], 32 * 2**20)
