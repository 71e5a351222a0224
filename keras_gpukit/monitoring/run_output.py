"""Takes the records of a call: folds them into its summary, and writes them to its files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from keras_gpukit.errors import Guard
from keras_gpukit.records.environment import Worker
from keras_gpukit.records.names import SCHEMA, RecordKind
from keras_gpukit.records.run import Overhead, RunHeader
from keras_gpukit.records.steps import Phase, StepWindow
from keras_gpukit.saved_runs.exporting.services import SERVICES, start_logging
from keras_gpukit.saved_runs.folding.run_fold import SERIES_POINTS, RunFold
from keras_gpukit.saved_runs.writing.run_log import RunLog
from keras_gpukit.saved_runs.writing.writer_thread import WriterThread

T = TypeVar("T")


class RunOutput:
    """Takes the records of callbacks and the session."""

    def __init__(self, log_dir: Path | None) -> None:
        self.log_dir = log_dir
        self.fold = RunFold(SERIES_POINTS)
        self._logs: list[WriterThread] = []
        self._claimed: set[str] = set()
        self._lock = threading.RLock()
        self._guard = Guard("Summing up records", "Figures are missing in the summary.")

    def start(self, worker: Worker | None, phase: Phase | None = None) -> None:
        """Opens the files of the run, if there is a log directory."""
        header = RunHeader(SCHEMA, time.time(), phase=phase)
        if self.log_dir is not None:
            log = RunLog(self.log_dir, worker, phase=phase)
            self._logs.append(log)
            header = log.header
        self.fold.add("run", header, header.time_s or 0.0, None)

    def log_to(self, services: Iterable[str], *, is_chief: bool) -> None:
        """Passes the records from now on to services too, each on a thread of its own."""
        for name in services:
            if (is_chief or not SERVICES[name].chief_only) and self.claim(f"logging to {name}"):
                thread = start_logging(name)
                self._logs += [thread] if thread else []

    @property
    def opening_s(self) -> float:
        """Processor time spent opening the files, in seconds."""
        return sum(log.opening_cpu_s for log in self._logs)

    @property
    def writing_s(self) -> float:
        """Processor time spent writing to the files so far, in seconds."""
        return sum(log.cpu_s - log.opening_cpu_s for log in self._logs)

    def claim(self, readings: str) -> bool:
        """Returns whether the caller is the first to make readings of a kind, and so is to go on.

        Several callbacks of a call may read the same; readings that are summed up must count once.
        """
        is_first = readings not in self._claimed
        self._claimed.add(readings)
        return is_first

    def record(self, kind: RecordKind, record: Any, step: int | None = None) -> None:
        """Adds a record to what is known of the run, and to its file, if there is one."""
        time_s = time.time()
        with self._guard, self._lock:
            self.fold.add(kind, record, time_s, step)
        for log in self._logs:
            log.record(kind, record, step, time_s)

    def read(self, part: Callable[[RunFold], T]) -> T:
        """Returns a part of what is known of the run; callable on any thread."""
        with self._lock:
            return part(self.fold)

    def overhead_writer(self, overhead_s: Callable[[], float]) -> Callable[[StepWindow], None]:
        """Returns a listener for windows of steps that writes the overhead per step."""
        written_s = overhead_s()

        def write(window: StepWindow) -> None:
            nonlocal written_s
            cost_s = overhead_s() - written_s
            written_s += cost_s
            record = Overhead(cost_s / window.steps, window.steps, written_s, 0.0)
            self.record("overhead", record, window.step)

        return write

    def close(self) -> None:
        """Writes the remaining records, and closes the files; may be called repeatedly."""
        for wait in (False, True):  # all finish at the same time
            for log in self._logs:
                log.close(wait=wait)
