"""Whether a change is outside the noise, on windows with given noise."""

import math
import random

import pytest

from keras_gpukit.rules.comparing.intervals import (
    PARTS,
    Estimate,
    after_warm_up,
    difference,
    estimate,
    relative_change,
    student,
)

PAIRS = 300


def windows(rng: random.Random, mean: float, count: int, noise: float, drift: float = 0.02):
    """Windows of a run as good as another, of a machine that becomes faster and slower."""
    mean *= 1 + rng.gauss(0, 0.01)
    # Noise of every duration, none of which averages out over the run: flicker noise.
    slow = [[rng.gauss(0, drift) for _ in range(2**level)] for level in range(6)]
    for place in range(count):
        drifted = sum(each[len(each) * place // count] for each in slow)
        yield mean * (1 + drifted + noise * rng.gauss(0, 1))


def of_windows(values, weights, least: int = PARTS, *, of_ratio: bool = False):
    """The mean of a run's windows, as a comparison takes it."""
    kept = after_warm_up(values, weights, least)
    return kept and estimate(*kept, of_ratio=of_ratio)


def called(
    slower: float, count: int, noise: float, drift: float, runs: int = 1, *, bursts: bool = False
) -> float:
    """The share of pairs that are called different, in the direction of the slowdown if any."""
    rng, number = random.Random(0), 0

    def run(mean: float):
        made = list(windows(rng, mean, count, noise, drift))
        if bursts:  # for an eighth of the run, another job takes the cores
            begun = rng.randrange(count)
            made[begun : begun + count // 8] = (4 * v for v in made[begun : begun + count // 8])
        return of_windows(made, [30.0] * count, of_ratio=True)

    for _ in range(PAIRS):
        a, b = ([run(mean) for _ in range(runs)] for mean in (0.05, 0.05 * (1 + slower)))
        _, low, high = relative_change(a, b)
        number += low > 0 or (high < 0 and not slower)
    return number / PAIRS


@pytest.mark.parametrize(
    ("count", "noise", "drift", "runs"),
    [
        (16, 0.02, 0.0, 1),
        (16, 0.05, 0.02, 1),
        (60, 0.05, 0.05, 1),
        (128, 0.0, 0.1, 1),
        (16, 0.05, 0.05, 3),
    ],
)
def test_runs_that_are_equal_are_rarely_called_different(count, noise, drift, runs):
    assert called(0.0, count, noise, drift, runs) <= 0.05


@pytest.mark.parametrize(
    ("count", "noise", "drift", "runs", "least"),
    [(16, 0.02, 0.0, 1, 0.95), (60, 0.03, 0.005, 1, 0.95), (16, 0.02, 0.02, 5, 0.95)],
)
def test_a_slowdown_of_a_tenth_is_found(count, noise, drift, runs, least):
    assert called(0.1, count, noise, drift, runs) >= least


@pytest.mark.parametrize("count", [16, 64])
def test_a_burst_of_another_job_hides_no_large_change_and_makes_none(count):
    assert called(1.78, count, 0.05, 0.02, bursts=True) >= 0.9
    assert called(0.0, count, 0.05, 0.02, bursts=True) <= 0.05


def test_parts_that_stand_out_are_trimmed_but_not_what_is_the_run_s_way():
    calm, burst = [10.0, 10.2, 9.8, 10.1, 9.9, 10.0, 10.1], [60.0]
    one = estimate([*calm, *burst], [1.0] * 8, of_ratio=True)
    assert math.exp(one.mean) == pytest.approx(10.05, abs=0.05)
    assert one.deviation < 0.02
    every_second = estimate([10.0, 60.0] * 4, [1.0] * 8, of_ratio=True)
    assert math.exp(every_second.mean) == pytest.approx(35)
    assert every_second.deviation > 0.9
    single = estimate([10.0] * 8, [1.0] + [0.0] * 7, of_ratio=True)
    assert relative_change([one], [single])[1:] == pytest.approx((-1, math.exp(100)))


def test_what_others_may_have_taken_widens_the_end_on_which_it_would_lie():
    calm = estimate([1.0] * 8, [1.0] * 8, of_ratio=True)
    shared = calm._replace(mean=math.log(2), lower=math.log(4))  # 4× faster alone
    change, low, high = relative_change([calm], [shared])
    assert (change, low) == (pytest.approx(1.0), pytest.approx(-0.5, abs=0.01))
    assert high < 1.1
    assert relative_change([shared], [calm])[2] == pytest.approx(1.0, abs=0.01)


def test_runs_that_take_turns_are_compared_with_the_next_one():
    speeds = (1.0, 1.3, 0.8, 1.1, 0.9)  # of the machine, which changes between the pairs
    a = [Estimate(math.log(speed), 0.01, 7) for speed in speeds]
    b = [Estimate(math.log(1.1 * speed), 0.01, 7) for speed in speeds]
    b[0] = b[0]._replace(mean=math.log(1.11))
    change, low, high = relative_change(a, b, alternating=True)
    assert low < change < high
    assert (low, high) == pytest.approx((0.097, 0.107), abs=2e-3)
    assert relative_change(a, b)[1] < 0


def test_the_warm_up_is_left_out_long_windows_weigh_more_and_few_have_no_interval():
    assert of_windows([9.0] * 2 + [1.0] * 8, [1.0] * 10).mean == 1.0
    assert of_windows([0.0] * 2 + [1.0, 4.0] * 4, [1.0] * 2 + [2.0, 1.0] * 4).mean == 2.0
    assert of_windows([1.0] * 9, [1.0] * 9) is None
    assert of_windows([1.0] * 10, [1.0] * 10) is not None
    assert of_windows([1.0] * 10, [-1.0] * 10) is None  # as of a damaged file
    assert of_windows([1.0, 3.0, 5.0], [1.0] * 3, least=1).mean == 4.0  # one of several runs


def test_without_noise_only_the_variation_between_runs_is_left():
    one = of_windows([1.0] * 20, [1.0] * 20, of_ratio=True)
    assert relative_change([one], [one._replace(mean=math.log(1.1))]) == pytest.approx(
        (0.1, 0.055, 0.147), abs=2e-3
    )
    share = one._replace(mean=0.2)
    assert difference([share], [share]) == pytest.approx((0.0, -0.0416, 0.0416), abs=1e-3)
    assert of_windows([0.0] * 20, [1.0] * 20, of_ratio=True) is None


def test_students_quantiles_are_those_of_its_table():
    for freedom, quantile in ((1 - 1e-15, 12.7), (4.9, 2.776), (19, 2.093), (20, 2.086), (60, 2.0)):
        assert student(freedom) == pytest.approx(quantile, rel=2e-3)
