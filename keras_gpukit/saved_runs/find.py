"""Where runs lie under a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

FOLDER = "gpukit"
FILE = "run.jsonl"
MOST_FOLDERS = 20_000


def find_run_files(root: Path) -> tuple[list[Path], bool]:
    """Looks for `gpukit/run.jsonl` at any depth; does not follow links, which may lead elsewhere.

    Args:
        root: A log folder, one above, or the folder "gpukit" in one.

    Returns:
        The files, and whether every folder was looked into: no more than `MOST_FOLDERS` are.
    """
    found: list[Path] = []
    for count, (folder, files) in enumerate(_walk(root), start=1):
        if count > MOST_FOLDERS:
            return found, False
        if FILE in files and folder.absolute().name == FOLDER:
            found.append(folder / FILE)
    return found, True


def run_name(root: Path, file: Path) -> str:
    """What a run is called: its log folder, as seen from the one that was asked for."""
    log_dir = file.parent.parent
    below = log_dir.relative_to(root) if log_dir.is_relative_to(root) else Path()
    name = below.as_posix() if below.parts else log_dir.resolve().name or str(log_dir)
    # A name may hold bytes that are no text.
    return os.fsencode(name).decode("utf-8", "replace")


def _walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    for folder, folders, files in os.walk(root):
        folders.sort()
        yield Path(folder), files
