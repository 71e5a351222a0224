"""Figures over time in a fixed number of points."""

from __future__ import annotations

from keras_gpukit.sensors.series import MOST_POINTS, SeriesCollector


def test_a_long_series_stays_small_and_loses_nothing():
    collector = SeriesCollector()
    for step in range(1, 10_001):
        slow = step > 5000
        collector.add("step/time_ms", step, step / 10, 250.0 if slow else 40.0, 3.0)
    (series,) = collector.record()
    assert MOST_POINTS / 2 <= len(series.mean) <= MOST_POINTS
    assert (series.step[-1], series.elapsed_s[-1]) == (10_000, 1000.0)
    assert sum(series.weight) == 30_000
    assert (series.mean[0], series.mean[-1]) == (40.0, 250.0)


def test_joined_readings_have_their_weighted_mean():
    collector = SeriesCollector()
    for step in range(1, 2 * MOST_POINTS + 1):
        is_odd = step % 2
        collector.add("a", step, float(step), 10.0 if is_odd else 40.0, 2.0 if is_odd else 1.0)
    (series,) = collector.record()
    assert set(series.mean) == {20.0}
    assert series.step[:2] == (2, 4)


def test_the_same_reading_counts_once_and_figures_are_apart():
    collector = SeriesCollector()
    for value in (1.0, 1.0, 2.0):
        collector.add("b", 1, 0.5, value)
    collector.add("a", 1, 0.5, 1.0)
    of_a, of_b = collector.record()
    assert (of_a.tag, of_b.tag) == ("a", "b")
    assert (of_a.mean, of_b.mean) == ((1.0,), (1.0, 2.0))
