"""Time series of figures, with a bounded number of points however long the run."""

from __future__ import annotations

from typing import NamedTuple

from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.records.shift import Series

MOST_POINTS = 128
"""Maximum number of points in a series. It is even: once it is reached, neighbours are joined in
pairs, and half of the points are left."""
MOST_READINGS = 128
"""Number of readings between epochs that are kept. It is even: if there are more readings, every
second one is dropped."""
_DIGITS = 6


class SeriesCollector:
    """Collects readings of figures. If a figure has too many points, neighbours are joined.

    The readings of one figure must come from one thread. Different figures may come from different
    threads.
    """

    def __init__(self) -> None:
        self._figures: dict[str, _Figure] = {}

    def add(self, tag: str, step: int, elapsed_s: float, value: float, weight: float = 1.0) -> None:
        """Adds one reading. If another callback adds the same reading again, it counts once.

        Args:
            tag: Name of the figure.
            step: Global step.
            elapsed_s: Time since the run began, in seconds.
            value: Value of the reading.
            weight: Weight of the reading in its point's mean.
        """
        figure = self._figures.get(tag) or _Figure()
        self._figures[tag] = figure.with_reading(_Point(step, elapsed_s, value * weight, weight))

    def record(self) -> tuple[Series, ...]:
        """Returns the series so far, sorted by tag."""
        return tuple(figure.series(tag) for tag, figure in sorted(self._figures.copy().items()))


class _Point(NamedTuple):
    step: int
    elapsed_s: float
    total: float
    weight: float

    def joined(self, later: _Point) -> _Point:
        return _Point(
            later.step, later.elapsed_s, self.total + later.total, self.weight + later.weight
        )


class _Figure(NamedTuple):
    """The points of one figure. It never changes: an interrupt finds the one before or after."""

    points: tuple[_Point, ...] = ()
    readings: int = 0
    per_point: int = 1
    latest: _Point | None = None

    def with_reading(self, reading: _Point) -> _Figure:
        """Adds a reading to the last point, or starts the next point with it."""
        if reading == self.latest:
            return self
        points, per_point = self.points, self.per_point
        if self.readings % per_point:
            points = (*points[:-1], points[-1].joined(reading))
        else:
            if len(points) == MOST_POINTS:
                pairs = zip(points[::2], points[1::2], strict=True)
                points = tuple(one.joined(other) for one, other in pairs)
                per_point *= 2
            points = (*points, reading)
        return _Figure(points, self.readings + 1, per_point, reading)

    def series(self, tag: str) -> Series:
        """Returns the points in order."""
        points = self.points
        return Series(
            tag=tag,
            step=tuple(point.step for point in points),
            elapsed_s=tuple(round(point.elapsed_s, 3) for point in points),
            mean=tuple(float(f"{point.total / point.weight:.{_DIGITS}g}") for point in points),
            weight=tuple(float(f"{point.weight:.{_DIGITS}g}") for point in points),
        )


class EpochMemoryCollector:
    """Collects readings of memory between epochs, in the order of epochs.

    When it drops one of two readings, it prefers to keep one that also looked at the tensors that
    the program keeps.

    Args:
        most: Maximum number of readings to keep, in addition to the latest one. Must be even.
    """

    def __init__(self, most: int = MOST_READINGS) -> None:
        self._most = most
        self._readings = _Readings()

    @property
    def latest(self) -> EpochMemory | None:
        """Latest reading; None before the first one."""
        return self._readings.latest

    def add(self, reading: EpochMemory) -> None:
        """Adds one reading."""
        kept, taken, every, _ = self._readings
        if taken % every:
            kept = (*kept[:-1], _that_looked(kept[-1], reading))
        else:
            if len(kept) == self._most:
                pairs = zip(kept[::2], kept[1::2], strict=True)
                kept = tuple(_that_looked(*pair) for pair in pairs)
                every *= 2
            kept = (*kept, reading)
        self._readings = _Readings(kept, taken + 1, every, reading)

    def record(self) -> tuple[EpochMemory, ...]:
        """Returns the readings that were kept, and the latest one."""
        kept, _, _, latest = self._readings
        return kept if latest is None or kept[-1] is latest else (*kept, latest)


class _Readings(NamedTuple):
    kept: tuple[EpochMemory, ...] = ()
    taken: int = 0
    every: int = 1
    latest: EpochMemory | None = None


def _that_looked(one: EpochMemory, other: EpochMemory) -> EpochMemory:
    """Returns the first of two readings, or the other if only that one looked at kept tensors."""
    return other if one.left_bytes is None and other.left_bytes is not None else one
