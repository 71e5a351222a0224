"""Keeps any number of readings in a fixed number of points or items, and outliers in them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar, cast

from keras_gpukit.records.codec import LARGEST
from keras_gpukit.records.event import RunEvent, Series
from keras_gpukit.records.machine import EpochMemory
from keras_gpukit.records.report import Band, TimeSeries

T = TypeVar("T")
MOST_READINGS = 128
"""Number of readings between epochs that are kept; even."""
MOST_EVENTS = 400
"""Maximum number of events per kind; even. On a screen, each is then two to three pixels wide."""
MOST_POINTS = 800
"""Maximum number of points; about as many as a chart on a screen can show."""
_DIGITS = 6
_MOST_WAITING = 1024
_Reading = tuple[float, int | None, Sequence[float | None], Sequence[float]]


class Joined(Generic[T]):
    """Items in order, each made of equally many readings. An interrupt costs one reading at most.

    The maximum number of items is even; `per_item` is the most readings in one item.
    """

    def __init__(self, most: int, join: Callable[[T, T], T]) -> None:
        self._most = most
        self._join = join
        self.items: list[T] = []
        self.per_item = 1
        self.readings = 0
        self._in_last = 0

    def add(self, item: T, readings: int = 1) -> None:
        """Adds an item made of some readings: to the last one, or after it if that is full."""
        self.readings += readings
        if self.items and self._in_last < self.per_item:
            self.items[-1] = self._join(self.items[-1], item)
            self._in_last += readings
            return
        if len(self.items) == self._most:
            self.items = joined_pairs(self.items, self._join)
            self.per_item *= 2
        self.items.append(item)
        self._in_last = readings


def joined_pairs(items: list[T], join: Callable[[T, T], T]) -> list[T]:
    """Joins each item at an even place with the next one; the last of an odd number stays."""
    pairs = [join(*pair) for pair in zip(items[::2], items[1::2], strict=False)]
    return pairs + items[2 * len(pairs) :]


class EpochReadings:
    """Readings of memory between epochs: an even number of them, and the latest one.

    When one of two is dropped, one that looked at the tensors that the program keeps stays.
    """

    def __init__(self, most: int = MOST_READINGS) -> None:
        self._kept = Joined(most, _that_looked)
        self._latest: EpochMemory | None = None

    def add(self, reading: EpochMemory) -> None:
        """Adds one reading."""
        self._kept.add(reading)
        self._latest = reading

    def readings(self) -> tuple[EpochMemory, ...]:
        """Returns the readings that were kept, and the latest one."""
        kept, latest = tuple(self._kept.items), self._latest
        return kept if latest is None or kept[-1] is latest else (*kept, latest)


def _that_looked(one: EpochMemory, other: EpochMemory) -> EpochMemory:
    return other if one.left_bytes is None and other.left_bytes is not None else one


def merged_events(one: RunEvent, other: RunEvent) -> RunEvent:
    """Returns two events of a kind as one."""
    spent_s = (
        event.duration_s if event.spent_s is None else event.spent_s for event in (one, other)
    )
    return replace(
        one,
        duration_s=other.ended_s - one.began_s,
        step=other.step,
        count=one.count + other.count,
        spent_s=sum(spent_s),
    )


class Aggregate(NamedTuple):
    """One figure in one point: weight, weighted sum, lowest and highest value.

    Without a known value, the weight is 0.
    """

    weight: float = 0.0
    total: float = 0.0
    low: float = LARGEST
    high: float = -LARGEST

    def joined(self, other: Aggregate) -> Aggregate:
        """Returns this cell with a later one."""
        return Aggregate(
            self.weight + other.weight,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @property
    def mean(self) -> Any:
        """Weighted mean. Without a known value, this, `lowest` and `highest` are None."""
        return self.total / self.weight if self.weight else None

    @property
    def lowest(self) -> Any:
        """Lowest value."""
        return self.low if self.weight else None

    @property
    def highest(self) -> Any:
        """Highest value."""
        return self.high if self.weight else None


class Point(NamedTuple):
    """Consecutive readings: time and step of the last one, and a cell for each figure."""

    time_s: float
    step: int | None
    cells: list[Aggregate]

    def joined(self, later: Point) -> Point:
        """Returns this point with the next one."""
        return Point(later.time_s, later.step, list(map(Aggregate.joined, self.cells, later.cells)))


class Downsampler:
    """Collects readings as points; neighbouring points are joined when there are too many.

    A point keeps the mean, lowest and highest of its readings, so a single outlier among a million
    readings remains visible. The maximum number of points is even.
    """

    def __init__(self, figures: Sequence[str], most_points: int = MOST_POINTS) -> None:
        self._figures = tuple(figures)
        self._equal_weights = (1.0,) * len(figures)
        self._points = Joined(most_points, Point.joined)
        self._overall: list[Aggregate] = [Aggregate()] * len(figures)
        self._waiting: list[_Reading] = []

    @property
    def readings(self) -> int:
        """Number of readings."""
        return self._points.readings + len(self._waiting)

    def add_reading(
        self,
        time_s: float,
        step: int | None,
        values: Sequence[float | None],
        weights: Sequence[float] | None = None,
    ) -> None:
        """Adds a reading, with the value of each figure and its weight in the mean."""
        self._waiting.append((time_s, step, values, weights or self._equal_weights))
        # Summing many readings together takes a fraction of the time.
        if self.readings % self._points.per_item == 0 or len(self._waiting) == _MOST_WAITING:
            self._fold()

    def overall(self) -> dict[str, Aggregate]:
        """Returns each figure over all readings."""
        self._fold()
        return dict(zip(self._figures, self._overall, strict=True))

    def short_series(
        self,
        tags: Mapping[str, tuple[str, float]],
        most: int,
        began_s: float,
        weight_at: int | None = None,
    ) -> Iterator[Series]:
        """Yields the figures with a tag, each times its factor, in at most so many points.

        The weights are those of the figure at `weight_at`, by default a figure's own.
        """
        self._fold()
        points = self._points.items.copy()
        while len(points) > most:
            points = joined_pairs(points, Point.joined)
        for name, (tag, factor) in tags.items():
            at = self._figures.index(name)
            known = [point for point in points if point.cells[at].weight]
            if known:
                weighed = at if weight_at is None else weight_at
                yield Series(
                    tag,
                    step=tuple(point.step or 0 for point in known),
                    elapsed_s=tuple(round(point.time_s - began_s, 3) for point in known),
                    mean=tuple(rounded(point.cells[at].mean * factor) for point in known),
                    weight=tuple(rounded(point.cells[weighed].weight) for point in known),
                )

    def series(self, figures: int | None = None) -> TimeSeries | None:
        """Returns the points of the first figures in order of time; None if there are no points."""
        self._fold()
        points = self._points.items
        if not points:
            return None
        return TimeSeries(
            time_s=tuple(round(point.time_s, 3) for point in points),
            step=tuple(point.step for point in points),
            readings=self._points.readings,
            readings_per_point=self._points.per_item,
            figures={
                name: _band([point.cells[position] for point in points])
                for position, name in enumerate(self._figures[:figures])
            },
        )

    def _fold(self) -> None:
        """Adds the waiting readings to the last point, or makes a new point from them."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        times_s, steps, values, weights = zip(*waiting, strict=True)
        columns = zip(zip(*values, strict=True), zip(*weights, strict=True), strict=True)
        cells = [_cell(*column) for column in columns]
        self._points.add(Point(times_s[-1], steps[-1], cells), len(waiting))
        self._overall = list(map(Aggregate.joined, self._overall, cells))


def _cell(values: Sequence[float | None], weights: Sequence[float]) -> Aggregate:
    if None in values:
        known = [pair for pair in zip(values, weights, strict=True) if pair[0] is not None]
        if not known:
            return Aggregate()
        values, weights = zip(*known, strict=True)
    numbers = cast("Sequence[float]", values)
    total = sum(map(operator.mul, numbers, weights))
    return Aggregate(sum(weights), total, min(numbers), max(numbers))


def _band(cells: Sequence[Aggregate]) -> Band:
    return Band(
        mean=tuple(rounded(cell.mean) for cell in cells),
        low=tuple(rounded(cell.lowest) for cell in cells),
        high=tuple(rounded(cell.highest) for cell in cells),
        weight=tuple(rounded(cell.weight) for cell in cells),
    )


def rounded(value: Any) -> Any:
    """Rounds to six digits: more precise than the measurement, and a third of the page's size."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")
