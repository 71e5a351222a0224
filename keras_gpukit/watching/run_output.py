"""Where a call's figures and records go: its files, and the figures over time in its summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_gpukit.records.environment import Worker
from keras_gpukit.records.names import OVERHEAD, RecordKind
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.sensors.series import SeriesCollector
from keras_gpukit.writers.run_log import RunLog


class RunOutput:
    """Takes what callbacks and the session measure.

    Args:
        log_dir: Where the run is written; None if it is not.

    Attributes:
        series: The numbers over time, by tag.
    """

    def __init__(self, log_dir: Path | None) -> None:
        self.log_dir = log_dir
        self.series = SeriesCollector()
        self._began_s = time.time()
        self._log: RunLog | None = None

    def start(self, worker: Worker | None) -> None:
        """Opens the run's files, if the run is written.

        Args:
            worker: Which process of a cluster this is; None outside one.
        """
        if self.log_dir is not None:
            self._log = RunLog(self.log_dir, worker)

    @property
    def opening_s(self) -> float:
        """Processor time of opening the files."""
        return self._log.opening_cpu_s if self._log else 0.0

    @property
    def writing_s(self) -> float:
        """Processor time of writing to them so far."""
        return self._log.cpu_s - self._log.opening_cpu_s if self._log else 0.0

    def values(
        self,
        step: int,
        values: Mapping[str, float | str | None],
        time_s: float | None = None,
        weight: float = 1.0,
    ) -> None:
        """Writes numbers or Markdown texts, by tag, for TensorBoard, if the run is written.

        Args:
            step: Global step.
            values: By tag; None where one is unknown.
            time_s: When, in seconds since the Unix epoch; now by default.
            weight: Of the numbers in means over time: the steps that they are means of.
        """
        elapsed_s = (time_s or time.time()) - self._began_s
        for tag, value in values.items():
            if isinstance(value, (int, float)):
                self.series.add(tag, step, elapsed_s, value, weight)
        if self._log is not None:
            self._log.values(step, values, time_s)

    def record(self, kind: RecordKind, record: Any, step: int | None = None) -> None:
        """Writes a record to the run's file, if the run is written."""
        if self._log is not None:
            self._log.record(kind, record, step)

    def overhead_writer(self, overhead_s: Callable[[], float]) -> Callable[[StepWindow], None]:
        """Returns what writes, for each window of steps, the overhead of a step.

        Args:
            overhead_s: Returns the overhead so far.
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
        """Writes what is left, and closes the files; may be called again."""
        if self._log is not None:
            self._log.close()
