"""Reads the profiles under a log folder, each of them once."""

from __future__ import annotations

import functools
from pathlib import Path

from keras_gpukit.records.names import PROFILE_SUFFIX, find_profiles
from keras_gpukit.records.report import CaptureReport

MOST_READ = 12
"""Number of newest profiles that are read; ten steps take some tenths of a second to read."""


def captures_under(root: Path) -> dict[Path, CaptureReport]:
    """Returns the captures under a folder by file, the oldest first.

    Only the newest `MOST_READ` are read; the others have `unread_because`.
    """
    files = sorted(map(_stamped, find_profiles(root)), key=lambda file: file[2])
    older = {
        path: CaptureReport(_name(path), unread_because=f"only the newest {MOST_READ} are")
        for path, _, _ in files[:-MOST_READ]
    }
    return older | {file[0]: _read(*file) for file in files[-MOST_READ:]}


@functools.lru_cache(maxsize=4 * MOST_READ)
def _read(path: Path, size: int, changed_ns: int) -> CaptureReport:
    """Reads a profile; again once its size or time has changed."""
    from keras_gpukit.profiling import read_profile

    try:
        return CaptureReport(_name(path), profile=read_profile(path))
    except Exception as error:  # the file may hold anything, and other profiles are still readable
        return CaptureReport(_name(path), unread_because=str(error) or type(error).__name__)


def _stamped(path: Path) -> tuple[Path, int, int]:
    try:
        status = path.stat()
    except OSError:  # the file was deleted in the meantime
        return path, 0, 0
    return path, status.st_size, status.st_mtime_ns


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(PROFILE_SUFFIX)}"
