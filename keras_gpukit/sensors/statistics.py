"""Running statistics of readings, in fixed memory however long the run."""

from __future__ import annotations

from typing import Any


class Gauges:
    """Mean, extremes and last value of each numeric field of a record read again and again.

    A field that was None in every reading stays None.
    """

    def __init__(self) -> None:
        self.readings = 0
        self._count: dict[str, int] = {}
        self._total: dict[str, float] = {}
        self._lowest: dict[str, Any] = {}
        self._highest: dict[str, Any] = {}
        self._last: dict[str, Any] = {}

    def add(self, record: Any) -> None:
        """Takes one reading in."""
        self.readings += 1
        for name, value in vars(record).items():
            if not isinstance(value, (int, float)):
                continue
            self._count[name] = self._count.get(name, 0) + 1
            self._total[name] = self._total.get(name, 0.0) + value
            self._lowest[name] = min(value, self._lowest.get(name, value))
            self._highest[name] = max(value, self._highest.get(name, value))
            self._last[name] = value

    def mean(self, name: str) -> float | None:
        """Mean of the readings that were not None."""
        return self._total[name] / self._count[name] if name in self._count else None

    def lowest(self, name: str) -> Any:
        """Lowest reading."""
        return self._lowest.get(name)

    def highest(self, name: str) -> Any:
        """Highest reading."""
        return self._highest.get(name)

    def last(self, name: str) -> Any:
        """Latest reading that was not None."""
        return self._last.get(name)
