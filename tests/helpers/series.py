"""Runs whose figures change over time, made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keras_gpukit.records import Environment, RunSummary, Series, ThroughputRecord


def series_of_points(
    tag: str, means: Sequence[float], *, point_s: float = 2.0, steps: int = 10
) -> Series:
    """A series of points of equally many steps, each of which took so long."""
    places = range(1, len(means) + 1)
    return Series(
        tag,
        tuple(place * steps for place in places),
        tuple(place * point_s for place in places),
        tuple(means),
        (float(steps),) * len(means),
    )


def changing_run(
    figures: Mapping[str, Sequence[float]], *, point_s: float = 2.0, **parts: Any
) -> RunSummary:
    """A run whose figures over time are given, by tag."""
    throughput = ThroughputRecord("fit", 640, 640, 0.05, 640.0, 40.0)
    return ones_series(
        *(series_of_points(tag, means, point_s=point_s) for tag, means in figures.items()),
        **{"throughput": throughput, **parts},
    )


def ones_series(*series: Series, **parts: Any) -> RunSummary:
    """A run that has these series."""
    return RunSummary(Environment({}), series=series, **parts)
