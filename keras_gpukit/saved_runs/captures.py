"""Reads the profiles under a log folder, each of them once."""

from __future__ import annotations

from pathlib import Path

from keras_gpukit.records.names import PROFILE_SUFFIX
from keras_gpukit.records.report import CaptureReport
from keras_gpukit.records.search import find_profiles

MOST_READ = 12
"""Number of newest profiles that are read; ten steps take some tenths of a second to read."""


class Captures:
    """Finds and reads profiles; further calls read only new or changed ones."""

    def __init__(self) -> None:
        self._read: dict[tuple[Path, int, int], CaptureReport] = {}

    def under(self, root: Path) -> dict[Path, CaptureReport]:
        """Returns the captures under a folder by file, the oldest first.

        Only the newest `MOST_READ` are read; the others have `unread_because`.
        """
        files = sorted((_stamp(path) for path in find_profiles(root)), key=lambda file: file[2])
        newest = set(files[-MOST_READ:])
        captures = {
            file: self._read.get(file) or _read(file[0])
            if file in newest
            else CaptureReport(_name(file[0]), unread_because=f"only the newest {MOST_READ} are")
            for file in files
        }
        self._read = {file: capture for file, capture in captures.items() if file in newest}
        return {path: capture for (path, _, _), capture in captures.items()}


def _read(path: Path) -> CaptureReport:
    from keras_gpukit.profiling import read_profile

    try:
        return CaptureReport(_name(path), profile=read_profile(path))
    except Exception as error:  # the file may hold anything, and other profiles are still readable
        return CaptureReport(_name(path), unread_because=str(error) or type(error).__name__)


def _stamp(path: Path) -> tuple[Path, int, int]:
    try:
        status = path.stat()
    except OSError:  # the file was deleted in the meantime
        return path, 0, 0
    return path, status.st_size, status.st_mtime_ns


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(PROFILE_SUFFIX)}"
