"""Downsamples any number of readings to a fixed number of points, keeping outliers."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple, cast

from keras_gpukit.records.codec import LARGEST
from keras_gpukit.records.report import Band, TimeSeries

MOST_POINTS = 800
"""Maximum number of points; about as many as a chart on a screen can show."""
FEWEST_POINTS = 2
"""Number of points that is enough for the mean, lowest and highest of all readings."""
_DIGITS = 6
_MOST_WAITING = 1024
_Reading = tuple[float, int | None, Sequence[float | None], Sequence[float]]


class Downsampler:
    """Collects readings as points; neighbouring points are merged when there are too many.

    A point keeps the mean, lowest and highest of its readings, so a single outlier among a million
    readings remains visible.

    Args:
        figures: Names of the figures in a reading.
        most_points: Maximum number of points; even.
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
        """Adds a reading.

        Args:
            time_s: Time of the reading, in seconds since the Unix epoch.
            step: Global step; None if unknown.
            values: Value of each figure, in the order of `figures`; None if it was not read. Values
                lie between -`LARGEST` and `LARGEST`.
            weights: Weight of each value in the mean; all weights are equal by default.
        """
        self._waiting.append((time_s, step, values, weights or self._equal_weights))
        self._readings += 1
        # Summing many readings together takes a fraction of the time.
        if self._readings % self._per_point == 0 or len(self._waiting) == _MOST_WAITING:
            self._fold()

    def series(self) -> TimeSeries | None:
        """Returns the points in order of time; None if there are no points."""
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
        """Adds the waiting readings to the last point, or makes a new point from them."""
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
    """One figure in one point: its weight, weighted sum, lowest and highest value."""

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
    """Rounds to six digits: more precise than the measurement, and a third of the page's size."""
    return float(f"{value:.{_DIGITS}g}")
