"""Reads the memory in use between epochs and after each of several fits, when no step runs."""

from __future__ import annotations

import inspect
import math
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.frameworks.keras_trainer import is_made_by_keras
from keras_gpukit.memory.model_state import held_between_steps
from keras_gpukit.monitoring.call_frame import callbacks_of_fit
from keras_gpukit.monitoring.call_steps import CallSteps
from keras_gpukit.monitoring.kept_tensors import LEAST_BYTES, KeptTensors
from keras_gpukit.records.machine import HOST, EpochMemory, Kept
from keras_gpukit.saved_runs.folding.downsampling import EpochReadings
from keras_gpukit.sensors.allocator import AllocatorSensor
from keras_gpukit.sensors.host import left_bytes, process_bytes

ALWAYS_READ = 16
"""Number of first epochs that are always read, however short they are: more than the rules need to
judge growth."""
PAUSE_TO_COST = 1000
"""After the first epochs, the pause between readings is at least this many times the duration of a
reading, so some short epochs are skipped. The same holds for looking for growing collections."""
BRIEF_S = 0.1
"""Longest processor time of a scan for growing collections that is repeated at each of the first
epochs; our choice. In a script of thousands of modules a scan took 0.2 s."""
SCANS_AT = (4, 8, 16)
"""Epochs after which a longer scan is repeated as well, since the first one shows no growth; our
choice."""
MOST_READINGS = 32
"""Maximum number of fits whose readings are kept; must be even. It is small because each fit also
writes the readings of the previous fits."""
# Not kept in `FitMemory`, which can be copied: the step functions, and the models that still exist
# with the bytes of their variables, None if not known yet.
_seen: weakref.WeakSet[Any] = weakref.WeakSet()
_models: weakref.WeakKeyDictionary[Any, int | None] = weakref.WeakKeyDictionary()


class Pace:
    """Decides when to repeat an action that takes a while."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def is_due(self, epochs: float) -> bool:
        """Whether to repeat the action now, after this number of epochs."""
        return epochs <= ALWAYS_READ or time.perf_counter() >= self._next_s

    def note(self, began_s: float) -> None:
        """Notes that the action started at a moment and has just ended."""
        now_s = time.perf_counter()
        self._next_s = now_s + PAUSE_TO_COST * (now_s - began_s)


class EpochMemoryWatch:
    """Reads memory after each epoch of a monitored `fit`, and when the `fit` ends."""

    def __init__(self, steps: CallSteps, sensor: AllocatorSensor, fits: FitMemory) -> None:
        self._steps = steps
        self._sensor = sensor
        self._fits = fits
        self._latest: EpochMemory | None = None
        self._owners: tuple[Any, ...] = (*callbacks_of_fit(), steps.model)
        # Memory left and collections kept, as of the latest reading at which memory had grown.
        self._at_growth: tuple[int | None, tuple[Kept, ...]] = (None, ())
        self._epochs = 0
        self._reads, self._scans = Pace(), Pace()
        self._scan_s = 0.0
        self._guard = Guard("Reading memory between epochs", "Its growth per epoch is unknown.")
        steps.on_epoch_ended(self._epoch_ended)
        step_function = inspect.unwrap(steps.model.train_function)
        if is_made_by_keras(step_function) and not steps.model.run_eagerly:
            fits.begin(step_function)

    def end(self, *, completed: bool) -> None:
        """Adds a completed fit's last reading to the series over fits, and forgets the model."""
        if completed and self._guard.failed_because is None:
            with self._guard:
                latest = self._latest
                if latest is None or latest.epoch < self._epochs:
                    latest = self._read()
                left, kept = self._at_growth
                reading = replace(latest, left_bytes=left, kept=kept)
                self._fits.add_fit(reading, self._steps.model)
        self._owners = ()

    def _epoch_ended(self) -> None:
        self._epochs += 1
        if not self._reads.is_due(self._epochs) or self._guard.failed_because is not None:
            return
        began_s = time.perf_counter()
        with self._guard:
            self._latest = reading = self._read()
            self._steps.output.write_record("epoch", reading, reading.step)
        self._steps.cost.add(time.perf_counter() - began_s, once=False)

    def _read(self) -> EpochMemory:
        began_s = time.perf_counter()
        devices = self._sensor.read_allocators()
        host_bytes = process_bytes()
        current_bytes = {reading.device: reading.current_bytes for reading in devices}
        has_grown = self._fits.has_grown({HOST: host_bytes, **current_bytes})
        self._reads.note(began_s)
        left: int | None = None
        kept: tuple[Kept, ...] = ()
        counts = self._scan_s <= BRIEF_S or self._epochs in SCANS_AT
        if has_grown and self._scans.is_due(self._epochs if counts else math.inf):
            began_s, spent_s = time.perf_counter(), time.thread_time()
            left, kept = self._at_growth = left_bytes(), self._fits.kept.read_largest(self._owners)
            self._scans.note(began_s)
            self._scan_s = time.thread_time() - spent_s
        return EpochMemory(
            epoch=self._epochs,
            step=self._steps.step,
            process_bytes=host_bytes,
            left_bytes=left,
            current_bytes=current_bytes,
            peak_bytes={reading.device: reading.needed_bytes for reading in devices},
            kept=kept,
            tracings=self._steps.wall.tracings,
        )


class FitMemory:
    """Memory in use after each fit that one callback monitors; contains only plain data."""

    def __init__(self) -> None:
        self.kept = KeptTensors()
        self._lowest_bytes: dict[str, int] = {}
        self._readings = EpochReadings(MOST_READINGS)
        self._fits = 0
        self._tracings = 0

    def begin(self, step_function: Any) -> None:
        """Notes that a fit begins. After the first fit, a new step function is traced again."""
        if self._fits and step_function not in _seen:
            self._tracings += 1
        _seen.add(step_function)

    def has_grown(self, in_use_bytes: Mapping[str, int]) -> bool:
        """Returns whether memory has grown by at least the minimum size of a named collection.

        Looking at collections takes several times longer than reading memory, which would slow
        short epochs down, and it shows nothing as long as memory does not grow. The bytes in use on
        the host and each device are compared with the lowest reading since the latest growth.
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

    def add_fit(self, reading: EpochMemory, model: Any) -> None:
        """Adds the reading taken at the end of a fit of a model."""
        self._fits += 1
        self._tracings += reading.tracings
        _models[model] = None
        sizes = {owner: size or sum(held_between_steps(owner)) for owner, size in _models.items()}
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

    def readings(self) -> tuple[EpochMemory, ...]:
        """Returns the readings so far; none after a single fit, whose epochs show more."""
        return self._readings.readings() if self._fits > 1 else ()
