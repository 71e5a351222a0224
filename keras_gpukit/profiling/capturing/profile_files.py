"""Profiles in a log directory: their names, and how one is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from keras_gpukit.records.names import PROFILE_SUFFIX, PROFILES
from keras_gpukit.writers.whole_files import new_folder, replace_file


def profile_name(step: int, time_s: float) -> str:
    """Returns the name of a profile: when it was taken, to the microsecond, and at which step.

    Args:
        step: Its first step.
        time_s: When, in seconds since the Unix epoch.
    """
    return f"{datetime.fromtimestamp(time_s):%Y_%m_%d_%H_%M_%S_%f}_step_{step}"


def profiles_bytes(log_dir: Path) -> int:
    """Returns what the profiles in a log directory take on the disk."""
    return sum(status.st_size for _, status in profile_files(log_dir / PROFILES))


def profile_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the profiles in a folder of profiles.

    Only plain files: a link may lead anywhere, and reading from a pipe may wait for ever. What
    cannot be looked at is passed over.

    Yields:
        The file, and what `os.lstat` says of it.
    """
    for path in folder.glob(f"*/*{PROFILE_SUFFIX}"):
        with suppress(OSError):  # removed meanwhile, perhaps
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path, status


def write_profile(log_dir: Path, name: str, file_name: str, content: bytes) -> Path:
    """Writes a profile to a folder of its own, whole or not at all.

    Args:
        log_dir: The log directory.
        name: Of the folder; a number is added where there is one of that name.
        file_name: Of the file.
        content: Of the file.

    Returns:
        The file.

    Raises:
        OSError: If it cannot be written.
    """
    path = new_folder(log_dir / PROFILES, name, separator="_") / file_name
    try:
        replace_file(path, content)
    except OSError:
        path.parent.rmdir()
        raise
    return path
