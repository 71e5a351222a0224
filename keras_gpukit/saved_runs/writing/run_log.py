"""Log of a run: one background thread passes records to all writers of its folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import BinaryIO

from keras_gpukit.records.environment import Worker
from keras_gpukit.records.names import FOLDER, SCHEMA, is_first, record_name
from keras_gpukit.records.run import RunHeader
from keras_gpukit.records.steps import Phase
from keras_gpukit.saved_runs.writing.event_file import EventFile
from keras_gpukit.saved_runs.writing.json_lines import JsonLines
from keras_gpukit.saved_runs.writing.process_identity import own_identity
from keras_gpukit.saved_runs.writing.writer_thread import Record, Writer, WriterThread

OpenWriter = Callable[[Path, str], Writer]
"""Function that opens a writer, given the run's folder and this process's own name in it."""
WRITERS: tuple[OpenWriter, ...] = (
    # TensorBoard treats the event files of a folder as one run, and would mix their data points.
    lambda folder, name: EventFile(folder if is_first(name) else folder / name),
    lambda folder, name: JsonLines(folder / f"{name}.jsonl"),
)


class RunLog(WriterThread):
    """Writes the records passed to it to a run's folder; never raises.

    If a writer fails, that is logged once and the writer is closed; its files remain readable.
    They are in `<log_dir>/gpukit`.
    """

    def __init__(
        self,
        log_dir: Path,
        worker: Worker | None = None,
        writers: Sequence[OpenWriter] = WRITERS,
        phase: Phase | None = None,
    ) -> None:
        self.folder = log_dir / FOLDER
        super().__init__(f"Writing to {self.folder}")
        self._worker = worker
        self._open_writers = writers
        now_s = time.time()
        self.header = RunHeader(SCHEMA, now_s, worker, own_identity(), phase)
        self._records.append(Record(now_s, None, "run", self.header))
        self.start()

    def _run(self) -> None:
        with self._guard():
            self.folder.mkdir(parents=True, exist_ok=True)
            with own_name(self.folder, self._worker) as name:
                self._run_writers(partial(each, self.folder, name) for each in self._open_writers)


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
