"""Any number of readings in a fixed number of items; neighbours are joined if there are more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from keras_gpukit.records.event import RunEvent
from keras_gpukit.records.machine import EpochMemory

T = TypeVar("T")
MOST_READINGS = 128
"""Number of readings between epochs that are kept; even."""
MOST_EVENTS = 400
"""Maximum number of events per kind; even. On a screen, each is then two to three pixels wide."""


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

    def record(self) -> tuple[EpochMemory, ...]:
        """Returns the readings that were kept, and the latest one."""
        kept, latest = tuple(self._kept.items), self._latest
        return kept if latest is None or kept[-1] is latest else (*kept, latest)


def _that_looked(one: EpochMemory, other: EpochMemory) -> EpochMemory:
    return other if one.left_bytes is None and other.left_bytes is not None else one


def merged_events(one: RunEvent, other: RunEvent) -> RunEvent:
    """Returns two events of a kind as one."""
    spent_s = (each.duration_s if each.spent_s is None else each.spent_s for each in (one, other))
    return replace(
        one,
        duration_s=other.ended_s - one.began_s,
        step=other.step,
        count=one.count + other.count,
        spent_s=sum(spent_s),
    )
