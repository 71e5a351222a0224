"""Output that only notebooks can show: text that is replaced in place, and pages in a frame."""

from __future__ import annotations

import contextvars
import html
from importlib import import_module

from keras_gpukit.reports.terminal import text_as_html

_FRAME_PX = 720


class LiveDisplay:
    """Text in the output of the running cell that is replaced in place, from any thread.

    Args:
        text: First text. A front end that can replace nothing keeps it.
    """

    def __init__(self, text: str) -> None:
        # The kernel finds the cell by a context variable, which a new thread lacks.
        self._context = contextvars.copy_context()
        self._handle = import_module("IPython.display").DisplayHandle()
        self._handle.display(_bundle(text), raw=True)

    def show(self, text: str) -> None:
        """Replaces the text."""
        self._context.run(self._handle.update, _bundle(text), raw=True)


def _bundle(text: str) -> dict[str, str]:
    return {"text/html": text and text_as_html(text), "text/plain": text}


def in_frame(page: str) -> str:
    """Returns a page as a frame within a notebook's output, whose scripts reach only the page."""
    # Without it, links within the page would lead to the notebook's own address.
    page = page.replace("<head>", '<head><base href="about:srcdoc">', 1)
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="Report" sandbox="allow-scripts" '
        f'style="border:0;width:100%;height:{_FRAME_PX}px"></iframe>'
    )
