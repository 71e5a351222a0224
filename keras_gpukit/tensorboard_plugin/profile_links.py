"""Where TensorBoard's Profile tab shows the trace of a capture."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from keras_gpukit.records.capture import CaptureRecord
from keras_gpukit.records.names import FOLDER, PROFILE_SUFFIX

TOOL = "trace_viewer@"


def trace_url(root: Path | None, log_dir: Path, capture: CaptureRecord) -> str | None:
    """Returns the address, seen from a report in the tab; None where there is no trace.

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
    told = {"run": os.fsencode(run), "tag": TOOL.encode(), "host": os.fsencode(host)}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in told.items())
    # From /data/plugin/gpukit/report.
    return f"../../../?{query}#profile"
