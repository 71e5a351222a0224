"""Where runs lie under a folder."""

from __future__ import annotations

import math
import os
from pathlib import Path

from keras_gpukit.folders import MOST_FOLDERS, Search

FOLDER = "gpukit"
FILE = "run.jsonl"


def find_run_files(
    root: Path, *, most_folders: int = MOST_FOLDERS, within_s: float = math.inf
) -> tuple[list[Path], bool]:
    """Looks for `gpukit/run.jsonl` at any depth, near the top first.

    Args:
        root: A log folder, one above, or the folder "gpukit" in one.
        most_folders: How many folders are looked into.
        within_s: For how long.

    Returns:
        The files, and whether every folder was looked into.
    """
    search = Search(root, most_folders=most_folders, within_s=within_s)
    found = [file for file in search.files(FILE.__eq__) if file.parent.absolute().name == FOLDER]
    return found, search.complete


def run_name(root: Path, file: Path) -> str:
    """What a run is called: its log folder, as seen from the one that was asked for."""
    log_dir = file.parent.parent
    below = log_dir.relative_to(root) if log_dir.is_relative_to(root) else Path()
    name = below.as_posix() if below.parts else log_dir.resolve().name or str(log_dir)
    # A name may hold bytes that are no text.
    return os.fsencode(name).decode("utf-8", "replace")
