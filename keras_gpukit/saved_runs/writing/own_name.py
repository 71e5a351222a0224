"""Gives each process that writes to a log directory file names of its own."""

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
    """Yields a name for files that no other process writes to until the block ends.

    The record file of that name is locked with `flock`; the system releases the lock when the
    process dies. On a disk or system without such locks, every process gets the first name. Lines
    remain intact, since each is appended by a single write, but runs of several processes mix.

    Args:
        folder: Folder of the files.
        worker: Place of this process in its cluster; None outside one.

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
