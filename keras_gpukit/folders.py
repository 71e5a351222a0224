"""Looks for files in folders that may be huge."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

MOST_FOLDERS = 20_000
"""How many are looked into where nothing else is said."""


class Search:
    """Looks through a folder and those below it, at any depth, near the top first.

    Links are not followed: what they lead to may lie elsewhere. Pipes and devices are no files.

    Args:
        root: The folder; one that is not there holds nothing.
        most_folders: How many folders are looked into.
        within_s: For how long.

    Attributes:
        complete: Whether every folder was looked into; known only after the search.
    """

    def __init__(self, root: Path, *, most_folders: int, within_s: float = math.inf) -> None:
        self.root = root
        self.most_folders = most_folders
        self.within_s = within_s
        self.complete = True

    def files(self, named: Callable[[str], bool]) -> Iterator[Path]:
        """Yields the files with a name of that sort."""
        deadline_s = time.monotonic() + self.within_s
        waiting = deque([self.root])
        looked_into = 0
        while waiting:
            if looked_into == self.most_folders or time.monotonic() > deadline_s:
                self.complete = False
                return
            looked_into += 1
            folders, files = _look_into(waiting.popleft(), named)
            yield from files
            waiting.extend(sorted(folders))


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
