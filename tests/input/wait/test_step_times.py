"""The distribution of step times, and where the parts of a call's wall time are."""

from __future__ import annotations

import numpy as np
import pytest

from keras_gpukit.input.wait.histograms import MOST_SLOW_STEPS, StepTimeHistogram
from keras_gpukit.input.wait.wall_time import WallTime


def test_quantiles_are_known_to_five_percent():
    histogram = StepTimeHistogram(1)
    assert histogram.record() is None
    times_s = np.random.default_rng(1).lognormal(-3, 0.5, 20_000)
    for part in np.split(times_s, 100):
        histogram.add(part, None, last_step=0, ended_s=0.0)
    record = histogram.record()
    assert record.steps == sum(record.counts) == len(times_s)
    for share in (0.01, 0.5, 0.95, 0.99):
        assert record.quantile_s(share) == pytest.approx(np.quantile(times_s, share), rel=0.05)


def test_the_slowest_steps_are_known_with_their_wait_and_place():
    histogram = StepTimeHistogram(1)
    for window in range(50):
        times_s = np.full(20, 0.01)
        waits_s = np.full(20, 0.002)
        if window % 4 == 0:
            times_s[7], waits_s[7] = 0.1 + window / 1000, 0.05
        ended_s = 1000.0 + window + times_s.sum()
        histogram.add(times_s, waits_s, last_step=20 * window + 20, ended_s=ended_s)
    slowest = histogram.record().slowest
    assert len(slowest) == MOST_SLOW_STEPS
    assert [step.duration_s for step in slowest] == sorted(
        (step.duration_s for step in slowest), reverse=True
    )
    assert (slowest[0].step, slowest[0].duration_s) == (20 * 48 + 8, pytest.approx(0.148))
    assert slowest[0].wait_s == 0.05
    assert slowest[0].time_s == pytest.approx(1048 + 7 * 0.01)


def test_a_slow_step_waited_no_less_than_nothing():
    histogram = StepTimeHistogram(1)
    histogram.add(np.array([0.5]), np.array([-0.004]), last_step=1, ended_s=1.5)
    assert histogram.record().slowest[0].wait_s == 0.0


def test_steps_of_one_execution_share_its_time():
    histogram = StepTimeHistogram(10)
    histogram.add(np.array([0.5, 1.0]), np.array([0.1, 0.2]), last_step=20, ended_s=1.5)
    record = histogram.record()
    assert record.steps == 20
    assert [(each.step, each.duration_s, each.wait_s) for each in record.slowest] == [
        (20, 0.1, 0.02),
        (10, 0.05, 0.01),
    ]


def test_each_part_of_the_wall_time_is_said_with_its_begin_and_end():
    moments = iter([0.0, 5.0, 8.0, 20.0, 20.0])
    parts = []
    wall = WallTime(
        "epoch start", now=lambda: next(moments), on_part=lambda *part: parts.append(part)
    )
    wall.turn("steps")
    wall.add_epoch_wait(2.0, began_s=5.0)
    wall.turn("validation")
    wall.end()
    assert parts == [
        ("epoch start", 0.0, 5.0),
        ("epoch start", 5.0, 7.0),
        ("steps", 5.0, 8.0),
        ("validation", 8.0, 20.0),
    ]
