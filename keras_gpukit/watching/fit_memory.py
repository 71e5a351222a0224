"""Memory in use after each of several fits, as where `fit(epochs=1)` is called in a loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.sensors.series import EpochMemoryCollector
from keras_gpukit.watching.kept_tensors import LEAST_BYTES, KeptTensors

MOST_READINGS = 32
"""Even. Each fit writes the readings of those before it, too."""


class FitMemory:
    """What is known over the fits that one callback watches; it holds plain data alone.

    Attributes:
        kept: Which collections grow, over all fits.
    """

    def __init__(self) -> None:
        self.kept = KeptTensors()
        self._lowest_bytes: dict[str, int] = {}
        self._readings = EpochMemoryCollector(MOST_READINGS)
        self._fits = 0
        self._tracings = 0

    def has_grown(self, in_use_bytes: Mapping[str, int]) -> bool:
        """Whether memory has grown by as much as a collection must take to be named.

        Looking at collections takes several times as long as reading memory, which short epochs
        would notice, and says nothing as long as memory stays as it is.

        Args:
            in_use_bytes: What is in use now, by where; it is compared with the least since the
                latest growth.
        """
        lowest = self._lowest_bytes
        grown = any(
            size_bytes >= lowest.get(where, size_bytes) + LEAST_BYTES
            for where, size_bytes in in_use_bytes.items()
        )
        for where, size_bytes in in_use_bytes.items():
            lowest[where] = size_bytes if grown else min(size_bytes, lowest.get(where, size_bytes))
        return grown

    def add(self, reading: EpochMemory) -> None:
        """Takes in what was in use when a fit came to its end."""
        self._fits += 1
        self._tracings += reading.tracings
        self._readings.add(replace(reading, epoch=self._fits, tracings=self._tracings))

    def record(self) -> tuple[EpochMemory, ...]:
        """The readings so far; none of a single fit, whose epochs tell more."""
        return self._readings.record() if self._fits > 1 else ()
