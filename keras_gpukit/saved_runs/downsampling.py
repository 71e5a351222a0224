"""Any number of readings in a fixed number of points, with nothing hidden."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple, cast

from keras_gpukit.records.codec import LARGEST
from keras_gpukit.records.report import Band, TimeSeries

MOST_POINTS = 800
"""About what a screen is wide."""
FEWEST_POINTS = 2
"""Enough for the mean, lowest and highest of all readings."""
_DIGITS = 6
_MOST_WAITING = 1024
_Reading = tuple[float, int | None, Sequence[float | None], Sequence[float]]


class Downsampler:
    """Takes readings in; when there are too many points, neighbours become one.

    A point keeps mean, lowest and highest of what it is made from, so that a single outlier among a
    million readings still shows.

    Args:
        figures: Names of what is read.
        most_points: How many points there are at most; even.
    """

    def __init__(self, figures: Sequence[str], most_points: int = MOST_POINTS) -> None:
        self._figures = tuple(figures)
        self._equal_weights = (1.0,) * len(figures)
        self._most_points = most_points
        self._points: list[_Point] = []
        self._per_point = 1
        self._readings = 0
        self._waiting: list[_Reading] = []

    def add(
        self,
        time_s: float,
        step: int | None,
        values: Sequence[float | None],
        weights: Sequence[float] | None = None,
    ) -> None:
        """Takes one reading in.

        Args:
            time_s: When, in seconds since the Unix epoch.
            step: Global step, where it is known.
            values: By figure; None where it was not read. All within `LARGEST`.
            weights: Of each value in the mean; all the same unless given.
        """
        self._waiting.append((time_s, step, values, weights or self._equal_weights))
        self._readings += 1
        # Sums of many at once are made in a fraction of the time.
        if self._readings % self._per_point == 0 or len(self._waiting) == _MOST_WAITING:
            self._fold()

    def series(self) -> TimeSeries | None:
        """Returns the points, in order; None where there are none."""
        self._fold()
        if not self._points:
            return None
        return TimeSeries(
            time_s=tuple(round(point.time_s, 3) for point in self._points),
            step=tuple(point.step for point in self._points),
            readings=self._readings,
            readings_per_point=self._per_point,
            figures={
                name: _band([point.cells[position] for point in self._points])
                for position, name in enumerate(self._figures)
            },
        )

    def _fold(self) -> None:
        """Adds what waits to the last point, or makes the next one of it."""
        if not self._waiting:
            return
        times_s, steps, values, weights = zip(*self._waiting, strict=True)
        cells = [
            _cell(*column)
            for column in zip(zip(*values, strict=True), zip(*weights, strict=True), strict=True)
        ]
        point = _Point(times_s[-1], steps[-1], len(self._waiting), cells)
        self._waiting = []
        if self._points and self._points[-1].readings < self._per_point:
            self._points[-1] = self._points[-1].joined(point)
            return
        if len(self._points) == self._most_points:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [one.joined(other) for one, other in pairs]
            self._per_point *= 2
        self._points.append(point)


class _Cell(NamedTuple):
    """One figure in one point."""

    weight: float
    total: float
    low: float
    high: float

    def joined(self, other: _Cell) -> _Cell:
        return _Cell(
            self.weight + other.weight,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
        )


class _Point(NamedTuple):
    time_s: float
    step: int | None
    readings: int
    cells: list[_Cell]

    def joined(self, later: _Point) -> _Point:
        return _Point(
            later.time_s,
            later.step,
            self.readings + later.readings,
            [one.joined(other) for one, other in zip(self.cells, later.cells, strict=True)],
        )


def _cell(values: Sequence[float | None], weights: Sequence[float]) -> _Cell:
    if None in values:
        known = [pair for pair in zip(values, weights, strict=True) if pair[0] is not None]
        if not known:
            return _Cell(0.0, 0.0, LARGEST, -LARGEST)
        values, weights = zip(*known, strict=True)
    numbers = cast("Sequence[float]", values)
    total = sum(map(operator.mul, numbers, weights))
    return _Cell(sum(weights), total, min(numbers), max(numbers))


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
