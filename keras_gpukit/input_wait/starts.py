"""How epochs' pipelines start, added up."""

from __future__ import annotations

from keras_gpukit.input_wait.meters import PipelineStart
from keras_gpukit.records.steps import PipelineStartRecord


class PipelineStarts:
    """Adds up the waits for first batches."""

    def __init__(self) -> None:
        self.epochs = 0
        """How many were measured."""
        self._wait_s = 0.0
        self._shuffle_s: float | None = 0.0

    def add(self, start: PipelineStart) -> None:
        """Takes one in."""
        self.epochs += 1
        self._wait_s += start.wait_s
        if self._shuffle_s is None or start.shuffle_fraction is None:
            self._shuffle_s = None
        else:
            self._shuffle_s += start.wait_s * start.shuffle_fraction

    def record(self) -> PipelineStartRecord | None:
        """Returns their means, or None where none was measured."""
        if not self.epochs:
            return None
        return PipelineStartRecord(
            epochs=self.epochs,
            mean_s=self._wait_s / self.epochs,
            shuffle_s=None if self._shuffle_s is None else self._shuffle_s / self.epochs,
        )
