"""Writes a call's figures and records to its files, and collects time series for its summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_gpukit.records.environment import Worker
from keras_gpukit.records.names import OVERHEAD, RecordKind
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.saved_runs.writing.run_log import RunLog
from keras_gpukit.sensors.series import SeriesCollector


class RunOutput:
    """Takes the measurements of callbacks and the session.

    Args:
        log_dir: Log directory of the run; None if nothing is written.

    Attributes:
        series: Time series of the figures, by TensorBoard tag.
    """

    def __init__(self, log_dir: Path | None) -> None:
        self.log_dir = log_dir
        self.series = SeriesCollector()
        self._began_s = time.time()
        self._log: RunLog | None = None

    def start(self, worker: Worker | None) -> None:
        """Opens the files of the run, if there is a log directory.

        Args:
            worker: This process as a worker of a cluster; None outside a cluster.
        """
        if self.log_dir is not None:
            self._log = RunLog(self.log_dir, worker)

    @property
    def opening_s(self) -> float:
        """Processor time spent opening the files, in seconds."""
        return self._log.opening_cpu_s if self._log else 0.0

    @property
    def writing_s(self) -> float:
        """Processor time spent writing to the files so far, in seconds."""
        return self._log.cpu_s - self._log.opening_cpu_s if self._log else 0.0

    def values(
        self,
        step: int,
        values: Mapping[str, float | str | None],
        time_s: float | None = None,
        weight: float = 1.0,
    ) -> None:
        """Writes numbers or Markdown texts for TensorBoard, if there is a log directory.

        Args:
            step: Global step.
            values: Number or text of each TensorBoard tag; None if unknown.
            time_s: Time of the values, in seconds since the Unix epoch; now by default.
            weight: Weight of the numbers in means over time: the number of steps that each number
                is the mean of.
        """
        elapsed_s = (time_s or time.time()) - self._began_s
        for tag, value in values.items():
            if isinstance(value, (int, float)):
                self.series.add(tag, step, elapsed_s, value, weight)
        if self._log is not None:
            self._log.values(step, values, time_s)

    def record(self, kind: RecordKind, record: Any, step: int | None = None) -> None:
        """Writes a record to the run's file, if there is a log directory."""
        if self._log is not None:
            self._log.record(kind, record, step)

    def overhead_writer(self, overhead_s: Callable[[], float]) -> Callable[[StepWindow], None]:
        """Returns a listener for windows of steps that writes the overhead per step.

        Args:
            overhead_s: Returns the total overhead so far, in seconds.
        """
        written_s = overhead_s()

        def write(window: StepWindow) -> None:
            nonlocal written_s
            cost_s = overhead_s() - written_s
            written_s += cost_s
            tags = {OVERHEAD: cost_s / window.steps * 1e6}
            self.values(window.step, tags, window.time_s, window.steps)

        return write

    def close(self) -> None:
        """Writes the remaining values, and closes the files; may be called repeatedly."""
        if self._log is not None:
            self._log.close()
