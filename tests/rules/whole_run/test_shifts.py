"""Shifts of a run's figures: planted ones are found, where they are; noise has none."""

import math

import numpy as np
import pytest
from helpers.summaries import changing_run, ones_series

from keras_gpukit.records import Series
from keras_gpukit.rules.whole_run.shifts import shifts_of

POINTS = 64


def noisy(levels, *, noise=0.05, seed=0):
    """Step times around given levels, as ratios."""
    random = np.random.default_rng(seed)
    return [level * math.exp(random.normal(0, noise)) for level in levels]


def stepwise(*parts):
    """Levels from (points, level)."""
    return [level for points, level in parts for _ in range(points)]


@pytest.mark.parametrize("ratio", [1.5, 2.0, 6.4, 1 / 3])
@pytest.mark.parametrize("at", [4, 13, 32, 57])
def test_a_planted_shift_is_found_where_it_is(ratio, at):
    for seed in range(5):
        levels = noisy(stepwise((at, 39.0), (POINTS - at, 39.0 * ratio)), seed=seed)
        (shift,) = shifts_of(changing_run({"step/time_ms": levels}))
        assert (shift.series, shift.unit, shift.kind) == ("step/time_ms", "ms", "level")
        assert shift.step == pytest.approx(at * 10 + 1, abs=20)  # ten steps a point
        assert shift.elapsed_s == pytest.approx(at * 2.0, abs=4.0)
        assert shift.before == pytest.approx(39.0, rel=0.1)
        assert shift.after == pytest.approx(39.0 * ratio, rel=0.1)
        assert shift.end_s == POINTS * 2.0


def test_there_and_back_again_are_two_shifts():
    levels = noisy(stepwise((20, 40.0), (15, 120.0), (29, 40.0)))
    there, back = shifts_of(changing_run({"step/time_ms": levels}))
    assert there.after == pytest.approx(120.0, rel=0.1) == back.before
    assert there.end_s == pytest.approx(back.elapsed_s) == pytest.approx(70.0, abs=2.0)
    # Also of a short run on a busy machine.
    levels = [12.2, 11.1, 12.0, 11.0, 10.9, 15.6, 41.3, 40.8, 40.9, 40.9, 40.9, 43.5, 41.1, 41.0]
    levels += [41.3, 42.0, 43.9, 32.4, 12.9, 11.4, 10.1, 10.2, 13.8, 14.0, 13.7, 11.3, 10.4]
    there, back = shifts_of(changing_run({"step/time_ms": levels}))
    assert (there.step, back.step) == (61, 181)


@pytest.mark.parametrize(
    ("drift", "before", "after"),
    [
        (lambda t: 1 + 3 * t, 60.0, 140.0),
        (lambda t: math.exp(math.log(6) * t), 54.0, 178.0),
        (lambda t: 1 + 2 * max(0.0, 2 * t - 1), 40.0, 93.0),
    ],
    ids=["linear", "exponential", "from the middle"],
)
def test_a_gradual_change_is_a_drift_from_the_first_third_to_the_last(drift, before, after):
    levels = noisy([40 * drift(point / 100) for point in range(100)], noise=0.03)
    (shift,) = shifts_of(changing_run({"step/time_ms": levels}))
    assert (shift.kind, shift.step, shift.end_s) == ("drift", 331, 200.0)
    assert shift.before == pytest.approx(before, rel=0.05)
    assert shift.after == pytest.approx(after, rel=0.05)


def autocorrelated(random, points, share):
    values = [random.normal()]
    for _ in range(points - 1):
        values.append(share * values[-1] + math.sqrt(1 - share**2) * random.normal())
    return np.array(values)


def with_outliers(random, points, scale):
    values = random.normal(0, scale, points)
    values[random.random(points) < 0.08] += 3.0
    return values


NOISE = {
    "normal": lambda random, points, scale: random.normal(0, scale, points),
    "heavy tails": lambda random, points, scale: scale * random.standard_t(2, points),
    "uniform": lambda random, points, scale: scale * random.random(points),
    "skewed": lambda random, points, scale: random.lognormal(0, 2 * scale, points) - 1,
    "outliers": with_outliers,
    "autocorrelated": lambda random, points, scale: scale * autocorrelated(random, points, 0.7),
    "slow": lambda random, points, scale: scale * autocorrelated(random, points, 0.85),
}


@pytest.mark.parametrize("kind", NOISE)
def test_noise_has_no_shifts(kind):
    found = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        points, scale = int(random.integers(10, 129)), (0.05, 0.15, 0.3)[seed % 3]
        times = 40 * np.exp(NOISE[kind](random, points, scale))
        found += bool(shifts_of(changing_run({"step/time_ms": times.tolist()})))
    assert found <= (3 if kind == "slow" else 1), f"{found} of 100 series of noise"


HICCUPS = ((20, 40.0), (2, 900.0), (42, 40.0)), ((62, 40.0), (2, 900.0))
LITTLE = ((32, 40.0), (32, 44.0))


@pytest.mark.parametrize(("parts", "noise"), [*((each, 0.05) for each in HICCUPS), (LITTLE, 0.001)])
def test_a_hiccup_and_a_change_that_does_not_matter_are_no_shift(parts, noise):
    levels = noisy(stepwise(*parts), noise=noise)
    assert not shifts_of(changing_run({"step/time_ms": levels}))


def test_a_shift_after_restless_steps_is_no_drift_through_them():
    levels = [5.9, 8.5, 1.5, 2.9, 2.0, 1.6, 3.3, 6.6, 1.6, 38.8, 36.5, 37.2, 36.7, 37.8, 37.6]
    levels += [38.6, 36.7, 36.6, 36.3, 35.9, 35.4, 33.0, 34.6, 36.1, 35.0]
    (shift,) = shifts_of(changing_run({"step/time_ms": levels}))
    assert (shift.kind, shift.step) == ("level", 91)


@pytest.mark.parametrize(
    ("tag", "before", "after", "unit"),
    [
        ("step/examples_per_s", 800.0, 400.0, "/s"),
        ("input/wait_ms", 0.1, 30.0, "ms"),
        ("input/stall_percent", 2.0, 60.0, "%"),
        ("gpu/0/sm_clock_mhz", 1980.0, 1200.0, "MHz"),
        ("gpu/3/utilization_percent", 95.0, 40.0, "%"),
        ("memory/GPU:0/current_bytes", 2e9, 3e9, "B"),
        ("host/memory_bytes", 2e9, 4e9, "B"),
        ("host/cpu_percent", 20.0, 90.0, "%"),
    ],
)
def test_every_figure_has_its_shifts(tag, before, after, unit):
    levels = stepwise((30, before), (30, after))
    (shift,) = shifts_of(changing_run({tag: levels}))
    assert (shift.series, shift.unit) == (tag, unit)
    assert (shift.before, shift.after) == pytest.approx((before, after))


@pytest.mark.parametrize(
    ("tag", "before", "after"),
    [
        ("input/wait_ms", 0.05, 0.2),  # a fetch of a batch that is ready
        ("memory/GPU:0/peak_bytes", 2e9, 3e9),  # only ever rises
        ("gpu/0/utilization_percent", 95.0, 85.0),
        ("tool/overhead_us", 5.0, 50.0),
    ],
)
def test_what_is_no_change_of_the_run_is_left_out(tag, before, after):
    assert not shifts_of(changing_run({tag: stepwise((30, before), (30, after))}))


def test_too_few_points_and_zeros_have_no_shifts():
    assert not shifts_of(changing_run({"step/time_ms": stepwise((5, 40.0), (4, 400.0))}))
    assert not shifts_of(changing_run({"host/memory_bytes": stepwise((30, 0.0), (30, 1e9))}))
    assert not shifts_of(changing_run({}))
    empty = Series("step/time_ms", (), (), (), ())
    assert not shifts_of(ones_series(empty))


def test_shifts_of_all_series_come_in_the_order_of_time():
    later, first = stepwise((40, 40.0), (20, 90.0)), stepwise((20, 1900.0), (40, 900.0))
    found = shifts_of(changing_run({"step/time_ms": later, "gpu/0/sm_clock_mhz": first}))
    assert [shift.series for shift in found] == ["gpu/0/sm_clock_mhz", "step/time_ms"]
