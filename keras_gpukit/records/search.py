"""Finds runs and profiles under folders that may be huge. Links are not followed."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from keras_gpukit.records.names import FOLDER, PROFILE_SUFFIX, RUN_FILE_OF_ANY

MOST_FOLDERS = 20_000
"""How many are looked into by default."""


def find_run_files(
    root: Path, *, most_folders: int = MOST_FOLDERS, within_s: float = math.inf
) -> tuple[list[Path], bool]:
    """Looks for `gpukit/run.jsonl` and the records of other workers and processes next to it.

    At any depth, near the top first.

    Args:
        root: A log folder, one above, or the folder "gpukit" in one.
        most_folders: How many folders are looked into.
        within_s: For how long.

    Returns:
        The files, and whether every folder was looked into.
    """
    records, complete = _files_below(
        root, lambda name: RUN_FILE_OF_ANY.fullmatch(name) is not None, most_folders, within_s
    )
    return [file for file in records if file.parent.absolute().name == FOLDER], complete


def find_profiles(log_dir: str | os.PathLike[str]) -> list[Path]:
    """Returns the profiles under a folder, at any depth; those of a run's hosts are neighbours.

    Links are not followed, so nothing outside the folder is ever named. At most 20,000 folders are
    looked into, those near the top first.

    Args:
        log_dir: A folder; one that does not exist, yet, has none.
    """
    files, _ = _files_below(Path(log_dir), lambda name: name.endswith(PROFILE_SUFFIX), MOST_FOLDERS)
    return sorted(files)


def _files_below(
    root: Path, named: Callable[[str], bool], most_folders: int, within_s: float = math.inf
) -> tuple[list[Path], bool]:
    """Returns the files with a name of that sort, and whether every folder was looked into.

    Those near the top come first. A root that is not there holds nothing. Links are not followed:
    what they lead to may lie elsewhere. Pipes and devices are no files.
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
    """Returns the folders and files in a folder; none of one that is gone or may not be read."""
    folders: list[Path] = []
    files: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif named(entry.name) and entry.is_file(follow_symlinks=False):
                    files.append(Path(entry.path))
    except (OSError, ValueError):  # a path with a zero in it is no place, and a ValueError
        pass
    return folders, files
