"""Where runs lie under a folder."""

from __future__ import annotations

import math
import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

FOLDER = "gpukit"
FILE = "run.jsonl"
MOST_FOLDERS = 20_000


def find_run_files(
    root: Path, *, most_folders: int = MOST_FOLDERS, within_s: float = math.inf
) -> tuple[list[Path], bool]:
    """Looks for `gpukit/run.jsonl` at any depth, near the top first.

    Links are not followed: what they lead to may lie elsewhere.

    Args:
        root: A log folder, one above, or the folder "gpukit" in one.
        most_folders: How many folders are looked into.
        within_s: For how long.

    Returns:
        The files, and whether every folder was looked into.
    """
    deadline_s = time.monotonic() + within_s
    found: list[Path] = []
    waiting = deque([root])
    looked_into = 0
    while waiting:
        if looked_into == most_folders or time.monotonic() > deadline_s:
            return found, False
        folder = waiting.popleft()
        looked_into += 1
        if folder.absolute().name == FOLDER and _is_file(folder / FILE):
            found.append(folder / FILE)
        else:
            waiting.extend(sorted(_folders_in(folder)))
    return found, True


def run_name(root: Path, file: Path) -> str:
    """What a run is called: its log folder, as seen from the one that was asked for."""
    log_dir = file.parent.parent
    below = log_dir.relative_to(root) if log_dir.is_relative_to(root) else Path()
    name = below.as_posix() if below.parts else log_dir.resolve().name or str(log_dir)
    # A name may hold bytes that are no text.
    return os.fsencode(name).decode("utf-8", "replace")


def _is_file(path: Path) -> bool:
    """Whether it is a file, and not a link, a pipe or a device called like one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _folders_in(folder: Path) -> Iterator[Path]:
    """The folders in a folder; none if it is gone or may not be read."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield Path(entry.path)
    except OSError:
        return
