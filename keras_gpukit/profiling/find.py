"""Finds profiles."""

from __future__ import annotations

import os
from pathlib import Path

from keras_gpukit.folders import MOST_FOLDERS, Search

SUFFIX = ".xplane.pb"


def find_profiles(log_dir: str | os.PathLike[str]) -> list[Path]:
    """Returns the profiles under a folder, at any depth; those of a run's hosts side by side.

    Links are not followed, so nothing outside the folder is ever named. At most
    `keras_gpukit.folders.MOST_FOLDERS` folders are looked into, those near the top first.

    Args:
        log_dir: A folder; one that does not exist, yet, has none.
    """
    search = Search(Path(log_dir), most_folders=MOST_FOLDERS)
    return sorted(search.files(lambda name: name.endswith(SUFFIX)))
