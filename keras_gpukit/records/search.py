"""Finds runs and profiles under folders of any size. Symbolic links are not followed."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from keras_gpukit.records.names import FOLDER, PROFILE_SUFFIX, RUN_FILE_OF_ANY

MOST_FOLDERS = 20_000


def find_run_files(
    root: Path,
    *,
    most_folders: int = MOST_FOLDERS,
    within_s: float = math.inf,
    profiles: bool = False,
) -> tuple[list[Path], bool]:
    """Finds `gpukit/run.jsonl` and the records of other workers and processes next to it.

    Args:
        root: A log folder, a folder above it, or the folder "gpukit" in it.
        most_folders: Number of folders that are searched at most, those near the top first.
        within_s: Time limit of the search.
        profiles: Whether to find profiles, too.

    Returns:
        The files, and whether every folder was searched.
    """

    def is_wanted(name: str) -> bool:
        is_record = RUN_FILE_OF_ANY.fullmatch(name) is not None
        return is_record or (profiles and name.endswith(PROFILE_SUFFIX))

    found, complete = _files_below(root, is_wanted, most_folders, within_s)
    return [
        file
        for file in found
        if file.name.endswith(PROFILE_SUFFIX) or file.parent.absolute().name == FOLDER
    ], complete


def find_profiles(log_dir: str | os.PathLike[str]) -> list[Path]:
    """Returns the profiles under a folder at any depth, sorted by path.

    Profiles of the hosts of one capture follow each other. Symbolic links are not followed, so all
    profiles are within the folder. At most 20,000 folders are searched, those near the top first.

    Args:
        log_dir: A folder. One that does not exist (yet) has no profiles.
    """
    files, _ = _files_below(Path(log_dir), lambda name: name.endswith(PROFILE_SUFFIX), MOST_FOLDERS)
    return sorted(files)


def _files_below(
    root: Path, named: Callable[[str], bool], most_folders: int, within_s: float = math.inf
) -> tuple[list[Path], bool]:
    """Returns the files whose names match, those near the top first; and whether it was all."""
    deadline_s = time.monotonic() + within_s
    found: list[Path] = []
    folders = [root]
    for number, folder in enumerate(folders):  # which grows
        if number == most_folders or time.monotonic() > deadline_s:
            return found, False
        # Gone or unreadable; a null byte in the path raises a ValueError.
        with suppress(OSError, ValueError), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif named(entry.name) and entry.is_file(follow_symlinks=False):
                    found.append(Path(entry.path))
    return found, True
