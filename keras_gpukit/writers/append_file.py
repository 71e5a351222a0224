"""A file that only grows, and is whole after every write, also when the disk fills up."""

from __future__ import annotations

import os
from pathlib import Path


class AppendFile:
    """Appends bytes; a write that fails half-way is taken back.

    Args:
        path: File to append to; its folder is made.

    Raises:
        OSError: If the folder or the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        # Unbuffered, so that what write() returned for is in the file.
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        self._whole = self._file.tell()

    def write(self, data: bytes) -> None:
        """Appends `data` whole or not at all.

        Raises:
            OSError: If the disk does not take it.
        """
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            os.ftruncate(self._file.fileno(), self._whole)
            raise
        self._whole += len(data)

    def close(self) -> None:
        """Closes the file; more calls do nothing."""
        self._file.close()
