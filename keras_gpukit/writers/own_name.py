"""Keeps processes that share a log directory out of each other's files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import BinaryIO

from keras_gpukit.records.environment import Worker
from keras_gpukit.records.names import record_name


@contextmanager
def own_name(folder: Path, worker: Worker | None) -> Iterator[str]:
    """Yields a name for files that no other process writes to before the block ends.

    The record of that name is locked by `flock`, which the system undoes when a process dies. On a
    disk or a system without such locks it is the first name: lines stay whole, as each is appended
    by one write, but runs of several processes mix.

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
    """Returns False if another process has the file."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows; a network disk without locks
        pass
    return True


def _unlock(file: BinaryIO) -> None:
    """Unlocks it also for processes forked meanwhile, which have the same file open."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)
    except (ImportError, OSError):
        pass
