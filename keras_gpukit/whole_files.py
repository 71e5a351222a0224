"""Writes files that are complete whenever they are read, even if the disk fills up.

Also makes folders that no other process uses.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Makes or replaces a file completely or not at all: others may read it at any moment."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def new_folder(parent: Path, name: str, separator: str) -> Path:
    """Makes a new folder that no other process uses, and returns its path.

    If the name is taken, the separator and a number are appended.
    """
    parent.mkdir(parents=True, exist_ok=True)
    number, folder = 1, parent / name
    while True:
        try:
            folder.mkdir()  # not checked before: another process may make it at the same moment
        except FileExistsError:
            number += 1
            folder = parent / f"{name}{separator}{number}"
        else:
            return folder


class AppendFile:
    """A file that is only appended to. If a write fails, it is undone and the file is closed.

    If its folder does not exist, it is made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = _opened(path)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _opened(path)

    def write(self, data: bytes) -> None:
        """Appends data completely or not at all; raises the `OSError` of a disk that is full."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            # Only this write is undone, not what other processes appended before it.
            if written := len(data) - len(rest):
                os.ftruncate(self._file.fileno(), self._file.tell() - written)
            self.close()
            raise

    def close(self) -> None:
        """Closes the file; may be called repeatedly."""
        self._file.close()


def _opened(path: Path) -> FileIO:
    # Unbuffered, so that data is in the file once write() has returned.
    return open(path, "ab", buffering=0)
