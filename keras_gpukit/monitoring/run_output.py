"""Takes the records and events of a run: folds them into its summary, and writes them to files."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from keras_gpukit.errors import Guard
from keras_gpukit.monitoring.replaced_attribute import ReplacedAttribute
from keras_gpukit.records.environment import Worker
from keras_gpukit.records.event import EventKind, RunEvent
from keras_gpukit.records.names import SCHEMA, RecordKind
from keras_gpukit.records.run import Overhead, RunHeader
from keras_gpukit.records.steps import Part, Phase, StepWindow
from keras_gpukit.saved_runs.exporting import SERVICES, start_logging
from keras_gpukit.saved_runs.folding import SERIES_POINTS, RunFold
from keras_gpukit.saved_runs.writing import WriterThread
from keras_gpukit.saved_runs.writing.run_log import RunLog

T = TypeVar("T")
SHORTEST_S = 0.05
"""Minimum duration of an event. Shorter ones are invisible on a chart of a run that lasts a minute,
and short epochs have many of them."""
_OF_PART: dict[Part, EventKind] = {
    "first step": "first step",
    "epoch start": "epoch start",
    "validation": "validation",
    "callbacks": "callbacks",
}
_SAVES = ("save", "save_weights")


class RunOutput:
    """Takes what is measured in a run, be it a call of `fit` or the like, or a loop of its own."""

    def __init__(self, log_dir: Path | None) -> None:
        self.log_dir = log_dir
        self.fold = RunFold(SERIES_POINTS)
        self._step: Callable[[], int] = int  # returns 0
        self._logs: list[WriterThread] = []
        self._claimed: set[str] = set()
        self._saves: list[ReplacedAttribute] = []
        self._epoch_began_s: float | None = None
        self._lock = threading.RLock()
        self._guard = Guard("Summing up records", "Figures are missing in the summary.")
        self._events_guard = Guard("Noting an event", "It is missing in the report.")

    def start(
        self, worker: Worker | None, phase: Phase | None = None, step: Callable[[], int] = int
    ) -> None:
        """Opens the files of the run, if there is a log directory.

        Records belong to the global step that `step` returns, unless another one is given.
        """
        self._step = step
        header = RunHeader(SCHEMA, time.time(), phase=phase)
        if self.log_dir is not None:
            log = RunLog(self.log_dir, worker, phase=phase)
            self._logs.append(log)
            header = log.header
        self.fold.add_record("run", header, header.time_s or 0.0, None)

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

    def write_record(self, kind: RecordKind, record: Any, step: int | None = None) -> None:
        """Adds a record to what is known of the run, and to its file, if there is one."""
        time_s, step = time.time(), self._step() if step is None else step
        with self._guard, self._lock:
            self.fold.add_record(kind, record, time_s, step)
        for log in self._logs:
            log.write_record(kind, record, step, time_s)

    def event(
        self, kind: EventKind, began_s: float, ended_s: float, number: int | None = None
    ) -> None:
        """Records what happened between two moments of `time.perf_counter`, unless it was short."""
        duration_s = ended_s - began_s
        if duration_s < SHORTEST_S:
            return
        with self._events_guard:
            began_unix_s = time.time() - (time.perf_counter() - began_s)
            step = self._step()
            self.write_record("event", RunEvent(kind, began_unix_s, duration_s, step, number), step)

    def part_ended(self, part: Part, began_s: float, ended_s: float) -> None:
        """Records a part of a call's wall time, if it is one between steps."""
        if part in _OF_PART:
            self.event(_OF_PART[part], began_s, ended_s)

    def epoch_began(self) -> None:
        """Notes that an epoch begins."""
        self._epoch_began_s = time.perf_counter()

    def epoch_ended(self, number: int | None) -> None:
        """Records that the current epoch, if there is one, has ended."""
        began_s, self._epoch_began_s = self._epoch_began_s, None
        if began_s is not None:
            self.event("epoch", began_s, time.perf_counter(), number)

    def watch_saves(self, model: Any) -> None:
        """Records each `save` and `save_weights` of a model as an event, until `close`."""
        self._saves = [ReplacedAttribute(model, name) for name in _SAVES]
        for save in self._saves:
            save.replace(self._watched(save.current))

    def _watched(self, save: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(save)
        def saving(*args: Any, **kwargs: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return save(*args, **kwargs)
            finally:
                self.event("checkpoint", began_s, time.perf_counter())

        return saving

    def read_fold(self, part: Callable[[RunFold], T]) -> T:
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
            self.write_record("overhead", record, window.step)

        return write

    def close(self) -> None:
        """Restores the model, writes what remains, and closes the files; can be repeated."""
        for save in self._saves:
            save.restore()
        self._step = int  # the other one refers to the run
        for wait in (False, True):  # all finish at the same time
            for log in self._logs:
                log.close(wait=wait)
