"""The folders with watched runs under TensorBoard's log directories.

They are looked for in the background and for a bounded time, since TensorBoard asks often and its
log directories may be huge. Links are not followed: what they lead to may lie outside.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from keras_gpukit.records.search import find_run_files

WITHIN_S = 10.0
LOOK_EVERY_S = 5.0
# Looking may take a twentieth of the time at most.
REST = 20


@dataclass(frozen=True)
class RunFolder:
    """A folder with runs in it, in folders below, or both; what a reader of the tab can pick.

    Attributes:
        id: What pages call it in their URLs; says nothing about where it lies.
        name: What people read.
        path: Where it lies.
        records: The files that its report is made of.
        root: The log directory; None where TensorBoard has several, each with a name.
    """

    id: str
    name: str
    path: Path
    records: tuple[Path, ...]
    root: Path | None = None

    def stamp(self) -> str:
        """Changes with every line that is added to a record, and when one goes or grows no longer.

        A run whose record grows no longer is over, and its report says so.
        """
        from keras_gpukit.saved_runs.run_lines import FRESH_S

        now_s = time.time()
        told = hashlib.sha256()
        for record in self.records:
            try:
                now = os.lstat(record)
            except OSError:
                continue
            fresh = now_s - now.st_mtime < FRESH_S
            told.update(f"{now.st_ino} {now.st_size} {now.st_mtime_ns} {fresh};".encode())
        return told.hexdigest()


@dataclass(frozen=True)
class Found:
    """What one search found.

    Attributes:
        folders: By id: each log directory before the folders in it.
        complete: False if the search gave up at its bounds.
    """

    folders: Mapping[str, RunFolder]
    complete: bool = True


def find_run_folders(roots: Mapping[str, Path]) -> Found:
    """Looks for folders with runs, those near the top first.

    Args:
        roots: Log directories by name; a single one may be called "".
    """
    folders: list[RunFolder] = []
    complete = True
    for name, root in roots.items():
        records, everywhere = find_run_files(root, within_s=WITHIN_S)
        folders += _run_folders(name, root, records)
        complete &= everywhere
    return Found({folder.id: folder for folder in folders}, complete)


class RunFolders:
    """Keeps knowing the folders with runs; asking costs next to nothing.

    Args:
        roots: Log directories by name.
    """

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self.roots = roots
        self._found = Found({})
        self._look_again_s = 0.0
        self._looked_once = threading.Event()
        self._looking = threading.Lock()

    def known(self, wait_s: float = 0.0) -> Found:
        """Returns what the last search found, and begins the next one if it is time.

        Args:
            wait_s: How long the very first search is waited for.
        """
        if self._is_time() and self._looking.acquire(blocking=False):
            if self._is_time():  # still: a search may have ended between the two
                threading.Thread(target=self._look, name="gpukit-runs", daemon=True).start()
            else:
                self._looking.release()
        self._looked_once.wait(wait_s)
        return self._found

    def _is_time(self) -> bool:
        return time.monotonic() >= self._look_again_s

    def _look(self) -> None:
        began_s = time.monotonic()
        try:
            self._found = find_run_folders(self.roots)
        finally:
            ended_s = time.monotonic()
            self._look_again_s = ended_s + max(LOOK_EVERY_S, REST * (ended_s - began_s))
            self._looked_once.set()
            self._looking.release()


def _run_folders(root_name: str, root: Path, records: list[Path]) -> Iterator[RunFolder]:
    """The log directory with all that is in it, then each folder with what is in it."""
    within: dict[Path, list[Path]] = {_log_dir(root, record): [] for record in records}
    folders = len(within)
    if folders > 1:
        within[root] = []
    for record in records:
        for folder in record.parents:
            if folder in within:
                within[folder].append(record)
            if folder == root:
                break
    for folder in sorted(within, key=lambda folder: (folder != root, folder)):
        whole = folder == root and len(within) > 1
        name = f"All {folders} folders" if whole else readable(folder.relative_to(root))
        yield RunFolder(
            hashlib.sha256(os.fsencode(folder)).hexdigest()[:16],
            f"{readable(root_name)}: {name}" if root_name else name,
            folder,
            tuple(within[folder]),
            None if root_name else root,
        )


def _log_dir(root: Path, record: Path) -> Path:
    """The folder above "gpukit", unless TensorBoard was started on that one itself."""
    return root if record.parent == root else record.parent.parent


def readable(path: str | Path) -> str:
    """A path as text that can be shown and sent; its names may be any bytes."""
    return os.fsencode(path).decode("utf-8", "replace")
