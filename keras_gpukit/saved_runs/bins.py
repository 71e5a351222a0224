"""Any number of readings in a fixed number of points, with nothing hidden."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keras_gpukit.records.report import Band, Course

MOST_POINTS = 800
"""About what a screen is wide."""
LARGEST = 1e18
"""More than any clock, disk or memory tells: such a number comes from a damaged file."""
_DIGITS = 6


class Bins:
    """Takes readings in; when there are too many points, neighbours become one.

    A point keeps mean, lowest and highest of what it is made from, so that a single outlier among a
    million readings still shows.

    Args:
        figures: Names of what is read.
        most_points: How many points there are at most; even.
    """

    def __init__(self, figures: Sequence[str], most_points: int = MOST_POINTS) -> None:
        self._figures = tuple(figures)
        self._most_points = most_points
        self._points: list[_Point] = []
        self._per_point = 1
        self._readings = 0

    def add(
        self, time_s: float, step: int | None, values: Iterable[tuple[float | None, float]]
    ) -> None:
        """Takes one reading in.

        Args:
            time_s: When, in seconds since the Unix epoch.
            step: Global step, where it is known.
            values: By figure its value, or None, and the weight of that in a mean.
        """
        if self._readings % self._per_point == 0:
            if len(self._points) == self._most_points:
                self._join_neighbours()
            self._points.append(_Point(len(self._figures)))
        self._readings += 1
        point = self._points[-1]
        point.time_s, point.step = time_s, step
        for cell, (value, weight) in zip(point.cells, values, strict=True):
            # Not for what is not a number, either.
            if value is not None and -LARGEST < value < LARGEST:
                cell.add(value, weight)

    def course(self) -> Course | None:
        """Returns the points, in order; None where there are none."""
        if not self._points:
            return None
        return Course(
            time_s=tuple(round(point.time_s, 3) for point in self._points),
            step=tuple(point.step for point in self._points),
            readings=self._readings,
            readings_per_point=self._per_point,
            figures={
                name: _band([point.cells[position] for point in self._points])
                for position, name in enumerate(self._figures)
            },
        )

    def _join_neighbours(self) -> None:
        pairs = zip(self._points[::2], self._points[1::2], strict=True)
        self._points = [one.joined(other) for one, other in pairs]
        self._per_point *= 2


class _Cell:
    """One figure in one point."""

    __slots__ = ("high", "low", "total", "weight")

    def __init__(self) -> None:
        self.weight = self.total = 0.0
        self.low = LARGEST
        self.high = -LARGEST

    def add(self, value: float, weight: float) -> None:
        self.weight += weight
        self.total += value * weight
        if value < self.low:
            self.low = value
        if value > self.high:
            self.high = value

    def take(self, other: _Cell) -> None:
        self.weight += other.weight
        self.total += other.total
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)


class _Point:
    __slots__ = ("cells", "step", "time_s")

    def __init__(self, figures: int) -> None:
        self.time_s = 0.0
        self.step: int | None = None
        self.cells = [_Cell() for _ in range(figures)]

    def joined(self, later: _Point) -> _Point:
        self.time_s, self.step = later.time_s, later.step
        for cell, other in zip(self.cells, later.cells, strict=True):
            cell.take(other)
        return self


def _band(cells: Sequence[_Cell]) -> Band:
    return Band(
        mean=tuple(_rounded(cell.total / cell.weight) if cell.weight else None for cell in cells),
        low=tuple(_rounded(cell.low) if cell.weight else None for cell in cells),
        high=tuple(_rounded(cell.high) if cell.weight else None for cell in cells),
        weight=tuple(_rounded(cell.weight) for cell in cells),
    )


def _rounded(value: float) -> float:
    """Six digits are more than is measured, and a third of the page."""
    return float(f"{value:.{_DIGITS}g}")
