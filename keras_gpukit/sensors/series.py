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
        figure = self._figures.get(tag)
        if figure is None:
            figure = self._figures[tag] = _Figure()
        figure.add(_Point(step, elapsed_s, value * weight, weight))

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


class _Figure:
    """The points of one figure."""

    def __init__(self) -> None:
        self._points: list[_Point] = []
        self._readings = 0
        self._per_point = 1
        self._latest: _Point | None = None

    def add(self, reading: _Point) -> None:
        """Adds a reading to the last point, or starts the next point with it."""
        if reading == self._latest:
            return
        self._latest = reading
        points = self._points
        if self._readings % self._per_point:
            points[-1] = points[-1].joined(reading)
        else:
            if len(points) == MOST_POINTS:
                pairs = zip(points[::2], points[1::2], strict=True)
                self._points = points = [one.joined(other) for one, other in pairs]
                self._per_point *= 2
            points.append(reading)
        self._readings += 1

    def series(self, tag: str) -> Series:
        """Returns the points in order."""
        points = tuple(self._points)
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

    Attributes:
        latest: Latest reading; None before the first one.
    """

    def __init__(self, most: int = MOST_READINGS) -> None:
        self._most = most
        self._kept: list[EpochMemory] = []
        self.latest: EpochMemory | None = None
        self._taken = 0
        self._every = 1

    def add(self, reading: EpochMemory) -> None:
        """Adds one reading."""
        self.latest = reading
        kept = self._kept
        if self._taken % self._every:
            kept[-1] = _that_looked(kept[-1], reading)
        else:
            if len(kept) == self._most:
                pairs = zip(kept[::2], kept[1::2], strict=True)
                self._kept = kept = [_that_looked(*pair) for pair in pairs]
                self._every *= 2
            kept.append(reading)
        self._taken += 1

    def record(self) -> tuple[EpochMemory, ...]:
        """Returns the readings that were kept, and the latest one."""
        latest = self.latest
        if latest is None or self._kept[-1] is latest:
            return tuple(self._kept)
        return (*self._kept, latest)


def _that_looked(one: EpochMemory, other: EpochMemory) -> EpochMemory:
    """Returns the first of two readings, or the other if only that one looked at kept tensors."""
    return other if one.left_bytes is None and other.left_bytes is not None else one
