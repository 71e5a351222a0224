"""How epochs' pipelines start, added up."""

from __future__ import annotations

from keras_gpukit.input_wait.meters import PipelineStart
from keras_gpukit.records.steps import PipelineStartRecord


class PipelineStarts:
    """Adds up the waits for first batches."""

    def __init__(self) -> None:
        self._count = 0
        self._wait_s = 0.0
        self._shuffle_s = 0.0

    def add(self, start: PipelineStart) -> None:
        """Takes one in."""
        self._count += 1
        self._wait_s += start.wait_s
        self._shuffle_s += start.wait_s * start.shuffle_fraction

    def record(self) -> PipelineStartRecord | None:
        """Returns their means, or None where none was measured."""
        if not self._count:
            return None
        return PipelineStartRecord(
            epochs=self._count,
            mean_s=self._wait_s / self._count,
            shuffle_s=self._shuffle_s / self._count,
        )
