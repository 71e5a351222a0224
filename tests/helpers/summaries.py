"""Parts of a run's summary, made up; by default, of a fit in which nothing is wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_gpukit.records import (
    Environment,
    InputRecord,
    RunSummary,
    Series,
    ThroughputRecord,
    TimeBreakdown,
)

PARTS = ("input_s", "callbacks_s", "epoch_start_s", "first_step_s", "validation_s", "other_s")


def breakdown(wall_s: float = 100.0, **parts: Any) -> TimeBreakdown:
    """The time of a run: that of some parts, and for the rest compute."""
    known: dict[str, Any] = dict.fromkeys(PARTS, 0.0) | parts
    others_s = sum(spent or 0.0 for name, spent in known.items() if name.endswith("_s"))
    return TimeBreakdown(wall_s, **{"compute_s": wall_s - others_s, **known})


def throughput(step_time_s: float = 0.01, steps: int = 1000, **more: Any) -> ThroughputRecord:
    """The speed of a fit, of which all steps were measured."""
    return ThroughputRecord("fit", steps, steps, step_time_s, **{"examples_per_s": None, **more})


def stall(
    fraction: float, confidence: Any = "exact", steps: int = 1000, **rest: Any
) -> InputRecord:
    """The input of a fit that waits for a share of its steps' time, 10 ms a step."""
    known = {"wait_s": 0.01, "stall_fraction": fraction, **rest}
    return InputRecord("fit", confidence=confidence, measured_steps=steps, **known)


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
    series = (series_of_points(tag, means, point_s=point_s) for tag, means in figures.items())
    speed = throughput(0.05, 640, examples_per_s=640.0, wall_s=40.0)
    return ones_series(*series, **{"throughput": speed, **parts})


def ones_series(*series: Series, **parts: Any) -> RunSummary:
    """A run that has these series."""
    return RunSummary(Environment({}), series=series, **parts)
