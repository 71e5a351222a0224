"""Finds profiles."""

from __future__ import annotations

import os
from pathlib import Path

SUFFIX = ".xplane.pb"


def find_profiles(log_dir: str | os.PathLike[str]) -> list[Path]:
    """Returns the profiles under a folder, at any depth; those of a run's hosts side by side.

    Links to folders are not followed, and a link to a file counts only if that lies under the same
    folder, so nothing outside it is ever named.

    Args:
        log_dir: A folder; one that does not exist, yet, has none.
    """
    root = Path(log_dir)
    home = root.resolve()
    return sorted(
        path
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(SUFFIX)
        and (path := Path(folder, name)).is_file()
        and path.resolve().is_relative_to(home)
    )
