"""Files that are whole whenever they are read, also when the disk fills up; and new folders."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file over what stands there, whole or not at all: others may look at any moment.

    Raises:
        OSError: If it cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def new_folder(parent: Path, name: str, separator: str) -> Path:
    """Makes a folder that no other process has; a number is added where there is one of that name.

    Raises:
        OSError: If it cannot be made.
    """
    parent.mkdir(parents=True, exist_ok=True)
    number, folder = 1, parent / name
    while True:
        try:
            folder.mkdir()  # making it is the test: another process may do so at the same moment
        except FileExistsError:
            number += 1
            folder = parent / f"{name}{separator}{number}"
        else:
            return folder


class AppendFile:
    """A file that only grows. A write that fails half-way is taken back, and is the last one.

    Args:
        path: File to append to; its folder is made.

    Raises:
        OSError: If the folder or the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = _opened(path)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _opened(path)

    def write(self, data: bytes) -> None:
        """Appends `data` whole or not at all.

        Raises:
            OSError: If the disk does not take it.
        """
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            # What others appended before this write stays.
            if written := len(data) - len(rest):
                os.ftruncate(self._file.fileno(), self._file.tell() - written)
            self.close()
            raise

    def close(self) -> None:
        """Closes the file; more calls do nothing."""
        self._file.close()


def _opened(path: Path) -> FileIO:
    # Unbuffered, so that what write() returned for is in the file.
    return open(path, "ab", buffering=0)
