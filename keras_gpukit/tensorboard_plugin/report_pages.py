"""Reports as pages, made when a record has changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from keras_gpukit.records.capture import CaptureRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.tensorboard_plugin.profile_links import trace_url
from keras_gpukit.tensorboard_plugin.run_folders import RunFolder

# A folder that was read is read on from where it was left; each holds some megabytes.
KEPT = 8


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
