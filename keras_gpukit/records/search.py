"""Finds runs and profiles under folders of any size. Symbolic links are not followed."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from keras_gpukit.records.names import FOLDER, PROFILE_SUFFIX, RUN_FILE_OF_ANY

MOST_FOLDERS = 20_000
"""Number of folders that are searched at most, by default."""


def find_run_files(
    root: Path, *, most_folders: int = MOST_FOLDERS, within_s: float = math.inf
) -> tuple[list[Path], bool]:
    """Finds `gpukit/run.jsonl` and the records of other workers and processes next to it.

    Searches folders at any depth, those near the top first.

    Args:
        root: A log folder, a folder above it, or the folder "gpukit" in it.
        most_folders: Number of folders that are searched at most.
        within_s: Time limit of the search, in seconds.

    Returns:
        The files, and whether every folder was searched.
    """
    records, complete = _files_below(
        root, lambda name: RUN_FILE_OF_ANY.fullmatch(name) is not None, most_folders, within_s
    )
    return [file for file in records if file.parent.absolute().name == FOLDER], complete


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
    """Returns the files whose names match, and whether every folder was searched.

    Files near the top come first. A root that does not exist has no files. Symbolic links are not
    followed, since their targets may be elsewhere. Pipes and devices are not files.
    """
    deadline_s = time.monotonic() + within_s
    waiting = deque([root])
    found: list[Path] = []
    looked_into = 0
    while waiting:
        if looked_into == most_folders or time.monotonic() > deadline_s:
            return found, False
        looked_into += 1
        folders, files = _look_into(waiting.popleft(), named)
        found += files
        waiting.extend(sorted(folders))
    return found, True


def _look_into(folder: Path, named: Callable[[str], bool]) -> tuple[list[Path], list[Path]]:
    """Returns the folders and matching files in a folder; none if it is gone or unreadable."""
    folders: list[Path] = []
    files: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif named(entry.name) and entry.is_file(follow_symlinks=False):
                    files.append(Path(entry.path))
    except (OSError, ValueError):  # a null byte in the path raises a ValueError
        pass
    return folders, files
