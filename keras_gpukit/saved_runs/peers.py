"""Reads the records of other workers from the same log folder, as a run ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from keras_gpukit.records.names import RUN_FILE_OF_ANY
from keras_gpukit.records.report import RunReport
from keras_gpukit.records.worker_comparison import WorkerComparison, WorkerFigures
from keras_gpukit.saved_runs.run_file import RunFile
from keras_gpukit.saved_runs.worker_figures import (
    comparison,
    missing_words,
    overlap,
    own_figures,
)

# Workers of a synchronous run end together, and each writes its record within about a second.
SUMMARIES_WITHIN_S = 5.0
# A worker writes its first line within this time after its start.
FIRST_LINES_WITHIN_S = 3.0
LOOK_EVERY_S = 0.1


class Peers:
    """Finds and compares the records of other workers in this worker's folder.

    Args:
        folder: Folder of the records, `<log_dir>/gpukit`.
        expected: Number of workers that train together.
        began_s: Start of the run, in seconds since the Unix epoch.
        now: Clock that returns seconds since the Unix epoch.
        sleep: Function that waits for a number of seconds.
    """

    def __init__(
        self,
        folder: Path,
        expected: int,
        began_s: float,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._expected = expected
        self._began_s = began_s
        self._now = now
        self._sleep = sleep
        self._files: dict[Path, tuple[int, RunFile]] = {}

    def compare(self, own: WorkerFigures, within_s: float = SUMMARIES_WITHIN_S) -> WorkerComparison:
        """Compares the workers, once all records are complete or the time is over.

        A worker whose record is incomplete is compared by the lines that it has written so far.

        Args:
            own: Figures of this worker.
            within_s: Maximum time to wait for the other records, in seconds.

        Raises:
            OSError: If the folder cannot be read.
        """
        until_s = self._now() + within_s
        while True:
            now_s = self._now()
            runs = self._runs(own.index, now_s)
            missing = set(range(self._expected)) - {own.index} - runs.keys()
            waits = any(run.summary.ending is None for run in runs.values()) or (
                bool(missing) and now_s < self._began_s + FIRST_LINES_WITHIN_S
            )
            if not waits or now_s >= until_s:
                break
            self._sleep(LOOK_EVERY_S)
        others = [each for each in map(own_figures, runs.values()) if each is not None]
        return comparison(own, others, self._expected, missing_words(sorted(missing)))

    def _runs(self, own: int, now_s: float) -> dict[int, RunReport]:
        """Returns the latest run of each other worker that overlaps with this run, by index."""
        this = RunReport("", "running", began_s=self._began_s, ended_s=now_s)
        latest: dict[int, RunReport] = {}
        for index, file in self._records():
            runs = file.runs(now_s, in_full=False)
            if index == own or not runs or not overlap(this, runs[-1]):
                continue
            before = latest.get(index)
            if before is None or (before.began_s or 0.0) < (runs[-1].began_s or 0.0):
                latest[index] = _with_worker(runs[-1], index)
        return latest

    def _records(self) -> list[tuple[int, RunFile]]:
        for path in self._folder.iterdir():
            told = RUN_FILE_OF_ANY.fullmatch(path.name)
            worker = told["worker"] if told else None
            if worker is not None and worker.isdigit() and path not in self._files:
                self._files[path] = int(worker), RunFile(path, path.stem)
        return list(self._files.values())


def _with_worker(run: RunReport, index: int) -> RunReport:
    """Returns the run with the worker index from its file's name."""
    if run.worker is None or run.worker.index == index:
        return run
    return replace(run, worker=replace(run.worker, index=index))
