"""Finds folders with runs or profiles in TensorBoard's log directories, and renders their pages."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from keras_gpukit.records.names import FOLDER, PROFILE_SUFFIX, find_run_files, readable

if TYPE_CHECKING:  # TensorBoard waits while this module is imported
    from keras_gpukit.records.profile import CaptureRecord
    from keras_gpukit.records.report import RunReport

WITHIN_S = 10.0
LOOK_EVERY_S = 5.0
# A pause is this many times as long as the search before it, so at most 1/20 of the time is search.
REST = 20
# Cached folders continue reading where they stopped. Each takes some megabytes of memory.
KEPT = 8
TRACE_TOOL = "trace_viewer@"
# A scheme has at least two letters; a single letter is a Windows drive.
_URI = re.compile(r"[a-zA-Z][0-9a-zA-Z.+-]+://")


@dataclass(frozen=True)
class TabFolder:
    """A folder that contains runs or profiles at any depth. Users pick such a folder in the tab.

    Attributes:
        id: Id of the folder in URLs; a hash that does not reveal the path.
        records: Record files of the runs in the folder, and the profiles there.
        root: TensorBoard's log directory; None if it is a named one of `--logdir_spec`.
    """

    id: str
    name: str
    path: Path
    records: tuple[Path, ...]
    root: Path | None = None

    def stamp(self) -> str:
        """Returns a hash that changes when a record grows, is deleted, or stops growing.

        A run whose record has stopped growing is over, and its report says so.
        """
        from keras_gpukit.saved_runs.run_lines import FRESH_S

        now_s = time.time()
        found = hashlib.sha256()
        for record in self.records:
            try:
                now = os.lstat(record)
            except OSError:
                continue
            fresh = now_s - now.st_mtime < FRESH_S
            found.update(f"{now.st_ino} {now.st_size} {now.st_mtime_ns} {fresh};".encode())
        return found.hexdigest()


@dataclass(frozen=True)
class Found:
    """Folders by id, each log directory before those in it, and whether all were searched."""

    folders: Mapping[str, TabFolder]
    complete: bool = True


def find_run_folders(roots: Mapping[str, Path]) -> Found:
    """Searches for folders with runs, those near the top first."""
    folders: list[TabFolder] = []
    complete = True
    for name, root in roots.items():
        records, everywhere = find_run_files(root, within_s=WITHIN_S, profiles=True)
        folders += _run_folders(name, root, records)
        complete &= everywhere
    return Found({folder.id: folder for folder in folders}, complete)


class RunFolders:
    """Keeps a list of the folders with runs up to date; reading the list takes almost no time."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self.roots = roots
        self._found = Found({})
        self._look_again_s = 0.0
        self._looked_once = threading.Event()
        self._looking = threading.Lock()

    def known(self, wait_s: float = 0.0) -> Found:
        """Returns the result of the last search, and starts the next search if it is due."""
        if self._is_time() and self._looking.acquire(blocking=False):
            if self._is_time():  # check again: a search may have ended before the lock was acquired
                threading.Thread(target=self._poll, name="gpukit-runs", daemon=True).start()
            else:
                self._looking.release()
        self._looked_once.wait(wait_s)
        return self._found

    def _is_time(self) -> bool:
        return time.monotonic() >= self._look_again_s

    def _poll(self) -> None:
        began_s = time.monotonic()
        try:
            self._found = find_run_folders(self.roots)
        finally:
            ended_s = time.monotonic()
            self._look_again_s = ended_s + max(LOOK_EVERY_S, REST * (ended_s - began_s))
            self._looked_once.set()
            self._looking.release()


def _run_folders(root_name: str, root: Path, records: list[Path]) -> Iterator[TabFolder]:
    """Yields the log directory with all of its records, then each folder with its records."""
    within: dict[Path, list[Path]] = {}
    for record in sorted(records, key=_is_profile):
        # A folder with a run also shows the profiles below it.
        if not (_is_profile(record) and within.keys() & {*record.parents}):
            within[_log_dir(root, record)] = []
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
        yield TabFolder(
            hashlib.sha256(os.fsencode(folder)).hexdigest()[:16],
            f"{readable(root_name)}: {name}" if root_name else name,
            folder,
            tuple(within[folder]),
            None if root_name else root,
        )


def _is_profile(record: Path) -> bool:
    return record.name.endswith(PROFILE_SUFFIX)


def _log_dir(root: Path, record: Path) -> Path:
    """Returns the folder above "gpukit", or above "plugins/profile/<run>" for a profile.

    That is the root if TensorBoard was started on a folder below.
    """
    folder = record.parents[3 if record.match(f"plugins/profile/*/*{PROFILE_SUFFIX}") else 1]
    return folder if folder.is_relative_to(root) else root


def log_dirs(logdir: str | None, logdir_spec: str | None) -> dict[str, Path]:
    """Returns the local log directories by the names that TensorBoard shows.

    That of `--logdir` is "". Remote folders, such as gs://bucket/logs, are left out.
    """
    if logdir:
        return {} if _URI.match(logdir) else {"": _absolute(logdir)}
    found: dict[str, Path] = {}
    for spec in filter(None, (logdir_spec or "").split(",")):
        name, path = _split(spec)
        if not _URI.match(path):
            found[name or path] = _absolute(path)
    return found


def _split(spec: str) -> tuple[str, str]:
    """Splits "name:path" as TensorBoard does: /a:b, C:/a and gs://a are paths without a name."""
    named = ":" in spec and not spec.startswith("/") and not os.path.splitdrive(spec)[0]
    if not named or _URI.match(spec):
        return "", spec
    name, _, path = spec.partition(":")
    return name, path


def _absolute(path: str) -> Path:
    # Resolve the path now, because the current folder may change; the folder need not exist yet.
    return Path(os.path.abspath(os.path.expanduser(path)))


class ReportPages:
    """The pages of the most recently requested folders.

    Pages are made one at a time, because each may keep a CPU core busy for seconds.
    """

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._page = functools.lru_cache(maxsize=KEPT)(_ReportPage)

    def page(self, folder: TabFolder, known: Mapping[str, TabFolder]) -> str:
        """Returns a folder's report as HTML, with links to other known folders with single runs."""
        with self._making:
            page, stamp = self._page(folder.path, folder.root), folder.stamp()
            if stamp != page.stamp:
                page.html, page.stamp = page.render(known), stamp
            return page.html


class _ReportPage:
    def __init__(self, path: Path, root: Path | None) -> None:
        from keras_gpukit.saved_runs.log_folder import LogFolder

        self._path, self._root = path, root
        self._log_folder = LogFolder(path)
        self.stamp = self.html = ""

    def render(self, known: Mapping[str, TabFolder]) -> str:
        from keras_gpukit.reports.html import render, run_id

        ids = {folder.path: folder.id for folder in known.values()}

        def href(run: RunReport) -> str | None:
            """Returns the URL of a run's own report, which has its charts; None if unknown."""
            folder = ids.get(self._path / run.folder) if run.folder else None
            return None if folder is None else f"report?folder={folder}#{run_id(run)}"

        def profile_href(run: RunReport, capture: CaptureRecord) -> str | None:
            return trace_url(self._root, self._path / run.folder, capture)

        report = self._log_folder.report()
        return render(report, plotly_src="plotly.js", href=href, profile_href=profile_href)


def trace_url(root: Path | None, log_dir: Path, capture: CaptureRecord) -> str | None:
    """Returns the URL of a capture's trace in the Profile tab, relative to a page of this tab.

    None if there is no trace, or if its name in the Profile tab is unknown, as without a `root`:
    the names of runs in the folders of `--logdir_spec` are unknown there.
    """
    if root is None or capture.path is None or not (log_dir / capture.path).is_file():
        return None
    run = (log_dir / FOLDER / capture.run).relative_to(root)
    host = Path(capture.path).name.removesuffix(PROFILE_SUFFIX)
    asked = {"run": os.fsencode(run), "tag": TRACE_TOOL.encode(), "host": os.fsencode(host)}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in asked.items())
    # Relative to /data/plugin/gpukit/report.
    return f"../../../?{query}#profile"
