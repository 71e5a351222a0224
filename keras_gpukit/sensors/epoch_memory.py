"""Readings between epochs, in a fixed number however long the run."""

from __future__ import annotations

from keras_gpukit.records.epoch_memory import EpochMemory

MOST_READINGS = 128
"""Even. When there are more, every second one is dropped."""


class EpochMemoryCollector:
    """Takes readings in, in the order of epochs."""

    def __init__(self) -> None:
        self._kept: list[EpochMemory] = []
        self._latest: EpochMemory | None = None
        self._taken = 0
        self._every = 1

    def add(self, reading: EpochMemory) -> None:
        """Takes one reading in."""
        self._latest = reading
        if self._taken % self._every == 0:
            if len(self._kept) == MOST_READINGS:
                del self._kept[1::2]
                self._every *= 2
            if self._taken % self._every == 0:
                self._kept.append(reading)
        self._taken += 1

    def record(self) -> tuple[EpochMemory, ...]:
        """The readings that were kept, and the latest one."""
        latest = self._latest
        if latest is None or self._kept[-1] is latest:
            return tuple(self._kept)
        return (*self._kept, latest)
