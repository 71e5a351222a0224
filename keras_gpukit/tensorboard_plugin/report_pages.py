"""Reports as pages, made when a record has changed."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from keras_gpukit.records.capture import CaptureRecord
from keras_gpukit.records.names import FOLDER, PROFILE_SUFFIX
from keras_gpukit.records.report import RunReport
from keras_gpukit.tensorboard_plugin.run_folders import RunFolder

# A folder that was read is read on from where it was left; each holds some megabytes.
KEPT = 8
TRACE_TOOL = "trace_viewer@"


class ReportPages:
    """The pages of the folders that were asked for last.

    One is made at a time, since each may take a processor for seconds.
    """

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._kept: OrderedDict[str, _ReportPage] = OrderedDict()

    def page(self, folder: RunFolder, known: Mapping[str, RunFolder]) -> str:
        """Returns a folder's report as HTML, which loads `plotly.js` from its own folder.

        Args:
            folder: The folder.
            known: All of them by id; those of single runs are linked to.

        Raises:
            OSError: If the folder has gone, or cannot be read.
        """
        with self._making:
            page = self._kept.setdefault(folder.id, _ReportPage(folder))
            self._kept.move_to_end(folder.id)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return page.html(folder.stamp(), known)


class _ReportPage:
    def __init__(self, folder: RunFolder) -> None:
        from keras_gpukit.saved_runs import LogFolder

        self._path, self._root = folder.path, folder.root
        self._log_folder = LogFolder(folder.path)
        self._stamp = ""
        self._html = ""

    def html(self, stamp: str, known: Mapping[str, RunFolder]) -> str:
        from keras_gpukit.reports.html import render, run_id

        if stamp != self._stamp:
            ids = {folder.path: folder.id for folder in known.values()}

            def href(run: RunReport) -> str | None:
                """The report of one of many runs, which has its charts."""
                folder = ids.get(self._path / run.folder) if run.folder else None
                return None if folder is None else f"report?folder={folder}#{run_id(run)}"

            def profile_href(run: RunReport, capture: CaptureRecord) -> str | None:
                return trace_url(self._root, self._path / run.folder, capture)

            self._html = render(
                self._log_folder.report(),
                plotly_src="plotly.js",
                href=href,
                profile_href=profile_href,
            )
            self._stamp = stamp
        return self._html


def trace_url(root: Path | None, log_dir: Path, capture: CaptureRecord) -> str | None:
    """Returns where the Profile tab shows a capture's trace, from a report in the tab GPU Kit.

    None where there is no trace.

    Args:
        root: TensorBoard's log directory, whose runs have no name before their path; None where it
            has several, whose names for the Profile tab are not known.
        log_dir: Where the run was written.
        capture: One of its captures.
    """
    if root is None or capture.path is None or not (log_dir / capture.path).is_file():
        return None
    run = (log_dir / FOLDER / capture.run).relative_to(root)
    host = Path(capture.path).name.removesuffix(PROFILE_SUFFIX)
    told = {"run": os.fsencode(run), "tag": TRACE_TOOL.encode(), "host": os.fsencode(host)}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in told.items())
    # From /data/plugin/gpukit/report.
    return f"../../../?{query}#profile"
