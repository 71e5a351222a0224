"""Renders reports as pages and caches them until a record changes."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from keras_gpukit.records.names import FOLDER, PROFILE_SUFFIX
from keras_gpukit.tensorboard_plugin.run_folders import TabFolder

if TYPE_CHECKING:  # TensorBoard waits while this module is imported
    from keras_gpukit.records.profile import CaptureRecord
    from keras_gpukit.records.report import RunReport

# Cached folders continue reading where they stopped. Each takes some megabytes of memory.
KEPT = 8
TRACE_TOOL = "trace_viewer@"


class ReportPages:
    """The pages of the most recently requested folders.

    Pages are made one at a time, because each may keep a CPU core busy for seconds.
    """

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._kept: OrderedDict[str, _ReportPage] = OrderedDict()

    def page(self, folder: TabFolder, known: Mapping[str, TabFolder]) -> str:
        """Returns a folder's report as HTML, with links to other known folders with single runs.

        Raises:
            OSError: If the folder no longer exists or cannot be read.
        """
        with self._making:
            page = self._kept.setdefault(folder.id, _ReportPage(folder))
            self._kept.move_to_end(folder.id)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            stamp = folder.stamp()
            if stamp != page.stamp:
                page.html, page.stamp = page.render(known), stamp
            return page.html


class _ReportPage:
    def __init__(self, folder: TabFolder) -> None:
        from keras_gpukit.saved_runs import LogFolder

        self._path, self._root = folder.path, folder.root
        self._log_folder = LogFolder(folder.path)
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
