"""Names, lists and writes the profile files in a log directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from keras_gpukit.records.names import PROFILE_SUFFIX, PROFILES
from keras_gpukit.whole_files import new_folder, replace_file


def profile_name(step: int, time_s: float) -> str:
    """Returns a profile's name, made of its time, to the microsecond, and its first step.

    Args:
        step: First step of the profile.
        time_s: Time of the capture, in seconds since the Unix epoch.
    """
    return f"{datetime.fromtimestamp(time_s):%Y_%m_%d_%H_%M_%S_%f}_step_{step}"


def profiles_bytes(log_dir: Path) -> int:
    """Returns the disk space that the profiles in a log directory take."""
    return sum(status.st_size for _, status in profile_files(log_dir / PROFILES))


def profile_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the profile files in a folder of profiles.

    Only regular files are included: a link may lead anywhere, and reading from a pipe may block
    forever. Files that cannot be examined are skipped.

    Yields:
        The file's path, and its status from `os.lstat`.
    """
    for path in folder.glob(f"*/*{PROFILE_SUFFIX}"):
        with suppress(OSError):  # removed meanwhile, perhaps
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path, status


def write_profile(log_dir: Path, name: str, file_name: str, content: bytes) -> Path:
    """Writes a profile to a folder of its own, completely or not at all.

    Args:
        log_dir: Log directory.
        name: Name of the folder. A number is appended if that folder exists.
        file_name: Name of the file.
        content: Content of the file.

    Returns:
        Path of the file.

    Raises:
        OSError: If the file cannot be written.
    """
    path = new_folder(log_dir / PROFILES, name, separator="_") / file_name
    try:
        replace_file(path, content)
    except OSError:
        path.parent.rmdir()
        raise
    return path
