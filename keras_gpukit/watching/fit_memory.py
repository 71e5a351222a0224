"""Keeps the memory in use after each of several fits, such as `fit(epochs=1)` in a loop."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keras_gpukit.memory.model_state import held_between_steps
from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.saved_runs.folding.joined import EpochReadings
from keras_gpukit.watching.kept_tensors import LEAST_BYTES, KeptTensors

MOST_READINGS = 32
"""Maximum number of fits whose readings are kept; must be even. It is small because each fit also
writes the readings of the previous fits."""
# Not kept in `FitMemory`, which can be copied: the step functions, and the models that still exist
# with the bytes of their variables, None if not known yet.
_seen: weakref.WeakSet[Any] = weakref.WeakSet()
_models: weakref.WeakKeyDictionary[Any, int | None] = weakref.WeakKeyDictionary()


class FitMemory:
    """Memory in use after each fit that one callback monitors; contains only plain data.

    Attributes:
        kept: Measures which collections of tensors grow, over all fits.
    """

    def __init__(self) -> None:
        self.kept = KeptTensors()
        self._lowest_bytes: dict[str, int] = {}
        self._readings = EpochReadings(MOST_READINGS)
        self._fits = 0
        self._tracings = 0

    def begin(self, step_function: Any) -> None:
        """Notes that a fit begins. After the first fit, a new step function is traced again.

        Args:
            step_function: Step function that the fit calls, which is traced at its first call.
        """
        if self._fits and step_function not in _seen:
            self._tracings += 1
        _seen.add(step_function)

    def has_grown(self, in_use_bytes: Mapping[str, int]) -> bool:
        """Returns whether memory has grown by at least the minimum size of a named collection.

        Looking at collections takes several times longer than reading memory, which would slow
        short epochs down, and it shows nothing as long as memory does not grow.

        Args:
            in_use_bytes: Bytes in use now, by location: "host" or a device. They are compared with
                the lowest reading since the latest growth.
        """
        lowest = self._lowest_bytes
        grown = any(
            size_bytes >= lowest.get(where, size_bytes) + LEAST_BYTES
            for where, size_bytes in in_use_bytes.items()
        )
        for where, size_bytes in in_use_bytes.items():
            lowest[where] = size_bytes if grown else min(size_bytes, lowest.get(where, size_bytes))
        return grown

    def skip(self, model: Any) -> None:
        """Notes that a fit of a model begins that is not monitored."""
        self._fits += 1
        self._tracings += model.train_function is None
        _models[model] = None  # it may not have all of its variables yet

    def add(self, reading: EpochMemory, model: Any) -> None:
        """Adds the reading taken at the end of a fit of a model."""
        self._fits += 1
        self._tracings += reading.tracings
        _models[model] = None
        sizes = {each: size or sum(held_between_steps(each)) for each, size in _models.items()}
        _models.update(sizes)
        self._readings.add(
            replace(
                reading,
                epoch=self._fits,
                tracings=self._tracings,
                models=len(sizes),
                models_bytes=sum(sizes.values()),
            )
        )

    def record(self) -> tuple[EpochMemory, ...]:
        """Returns the readings so far; none after a single fit, whose epochs show more."""
        return self._readings.record() if self._fits > 1 else ()
