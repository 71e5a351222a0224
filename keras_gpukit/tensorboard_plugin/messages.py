"""Pages that the tab shows if there is no report."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from keras_gpukit.records.names import FOLDER, RUN_FILE
from keras_gpukit.tensorboard_plugin.run_folders import readable

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="stylesheet" href="tab.css">
<main class="message">
<h1>{title}</h1>
{body}
</main>
</html>
"""

_HOW_TO = """
<p>Give <code>fit</code> the callback, and a folder below TensorBoard's log directory:</p>
<pre>import keras_gpukit as gpukit

model.fit(dataset, callbacks=[gpukit.Monitor("{log_dir}")])</pre>
<p>The report appears here while the run goes on; nothing needs to be reloaded.</p>
"""


def no_runs(roots: Mapping[str, Path]) -> str:
    """Returns the page shown when no run was found yet, with instructions to start."""
    if not roots:
        where = "TensorBoard was not started on a local folder, and only those are read."
        return _page("No log directory to read", f"<p>{where}</p>")
    where = "".join(f"<li><code>{escape(readable(root))}</code></li>" for root in roots.values())
    looked = f"<p>Looked for <code>{FOLDER}/{RUN_FILE}</code> in</p><ul>{where}</ul>"
    first = Path(next(iter(roots.values())), "my-run")
    how_to = _HOW_TO.format(log_dir=escape(readable(first)))
    return _page("No watched run here yet", looked + how_to)


def folder_is_gone() -> str:
    """Returns the page for a folder that is not, or no longer, under the log directory."""
    return _page(
        "These runs are not here",
        "<p>They were removed or renamed, or the search has not found them yet. As soon as it "
        "does, they appear here. Others can be picked above.</p>",
    )


def failed(error: BaseException) -> str:
    """Returns the page for a report that failed, with the error."""
    what = escape(readable(f"{type(error).__name__}: {error}"))
    return _page(
        "The report could not be made",
        f"<p>What was recorded could not be read, or not all of it:</p><pre>{what}</pre>"
        "<p>TensorBoard's own tabs are not affected. As soon as more is recorded, this page tries "
        "again.</p>",
    )


def _page(title: str, body: str) -> str:
    return _PAGE.format(title=escape(title), body=body)
