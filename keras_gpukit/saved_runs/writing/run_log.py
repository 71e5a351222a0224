"""Log of a run: one background thread passes records to all writers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from keras_gpukit.errors import Guard
from keras_gpukit.records.codec import SCHEMA
from keras_gpukit.records.environment import Worker
from keras_gpukit.records.names import FOLDER, RecordKind, is_first, record_name
from keras_gpukit.records.run import RunHeader
from keras_gpukit.records.steps import Phase
from keras_gpukit.saved_runs.writing.event_file import EventFile
from keras_gpukit.saved_runs.writing.json_lines import JsonLines
from keras_gpukit.saved_runs.writing.process_identity import own_identity
from keras_gpukit.saved_runs.writing.writer import Record, Writer

OpenWriter = Callable[[Path, str], Writer]
"""Function that opens a writer, given the run's folder and this process's own name in it."""
WRITERS: tuple[OpenWriter, ...] = (
    # TensorBoard treats the event files of a folder as one run, and would mix their data points.
    lambda folder, name: EventFile(folder if is_first(name) else folder / name),
    lambda folder, name: JsonLines(folder / f"{name}.jsonl"),
)
FLUSH_EVERY_S = 1.0
# A network disk that hangs must not keep `fit` from returning.
CLOSE_WITHIN_S = 10.0


class RunLog:
    """Writes the records passed to it, about once a second; never raises.

    If a writer fails, that is logged once and the writer is closed; its files remain readable.

    Args:
        log_dir: Log directory; files are written to `<log_dir>/gpukit`.
        worker: Place of this process in its cluster; None outside one.
        writers: Functions that open the writers.
        phase: The call; None if unknown.
    """

    def __init__(
        self,
        log_dir: Path,
        worker: Worker | None = None,
        writers: Sequence[OpenWriter] = WRITERS,
        phase: Phase | None = None,
    ) -> None:
        self.folder = log_dir / FOLDER
        self.cpu_s = self.opening_cpu_s = 0.0
        """Processor time of the writer thread: in total, and to open the files."""
        self._worker = worker
        self._open_writers = writers
        self._records: deque[Record] = deque()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpukit-writer", daemon=True)
        now_s = time.time()
        self.header = RunHeader(SCHEMA, now_s, worker, own_identity(), phase)
        self._records.append(Record(now_s, None, "run", self.header))
        self._thread.start()

    def record(
        self, kind: RecordKind, record: Any, step: int | None = None, time_s: float | None = None
    ) -> None:
        """Passes a record to the writers, made now if no time is given."""
        if self._thread.is_alive():
            made_s = time.time() if time_s is None else time_s
            self._records.append(Record(made_s, step, kind, record))

    def close(self) -> None:
        """Writes the rest and closes the files; waits for a slow disk, but for a limited time."""
        self._closing.set()
        self._thread.join(CLOSE_WITHIN_S)
        with self._guard():
            if self._thread.is_alive():
                raise TimeoutError(f"not done after {CLOSE_WITHIN_S:.0f} s")

    def _run(self) -> None:
        with self._guard():
            self.folder.mkdir(parents=True, exist_ok=True)
            with own_name(self.folder, self._worker) as name:
                self._run_writers(name)

    def _run_writers(self, name: str) -> None:
        writers: list[Writer] = []
        # All writers are opened before there is anything to write: the imports for event files take
        # a moment, and must not happen while the interpreter shuts down.
        for open_writer in self._open_writers:
            with self._guard():
                writers.append(open_writer(self.folder, name))
        self.opening_cpu_s = self.cpu_s = time.thread_time()
        while writers and not self._closing.wait(FLUSH_EVERY_S):
            writers = self._flush(writers)
        for writer in self._flush(writers):
            with self._guard():
                writer.close()

    def _flush(self, writers: list[Writer]) -> list[Writer]:
        """Passes on what is waiting, closes writers that fail, and returns the others."""
        waiting = self._records
        records = [waiting.popleft() for _ in range(len(waiting))]
        able: list[Writer] = []
        for writer in writers:
            with self._guard(), ExitStack() as on_failure:
                on_failure.callback(writer.close)
                if records:
                    writer.write_records(records)
                on_failure.pop_all()
                able.append(writer)
        self.cpu_s = time.thread_time()
        return able

    def _guard(self) -> Guard:
        return Guard(f"Writing to {self.folder}", "Nothing more is written in this run.")


@contextmanager
def own_name(folder: Path, worker: Worker | None) -> Iterator[str]:
    """Yields a name for files that no other process writes to until the block ends.

    The record file of that name is locked with `flock`; the system releases the lock when the
    process dies. On a disk or system without such locks, every process gets the first name. Lines
    remain intact, since each is appended by a single write, but runs of several processes mix.

    Raises:
        OSError: If the folder cannot be written.
    """
    for process in count(1):
        name = record_name(worker, process)
        with open(folder / f"{name}.jsonl", "ab") as record:
            if _lock(record):
                try:
                    yield name
                finally:
                    _unlock(record)
                return


def _lock(file: BinaryIO) -> bool:
    """Locks a file; returns False if another process has locked it."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows; a network disk without locks
        pass
    return True


def _unlock(file: BinaryIO) -> None:
    """Unlocks a file, even if processes forked in the meantime have inherited it open."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)
    except (ImportError, OSError):
        pass
