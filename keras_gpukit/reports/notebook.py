"""Output that only notebooks can show: text that is replaced in place, and pages in a frame."""

from __future__ import annotations

import contextvars
import html
import sys
from importlib import import_module

from rich.console import RenderableType

from keras_gpukit.reports.terminal import as_html, as_text

_SHELL = "ZMQInteractiveShell"
"""Class of the shells in the kernels of notebooks; Colab's is a subclass."""
_FRAME_PX = 720


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return any(each.__name__ == _SHELL for each in type(shell).__mro__)


class LiveDisplay:
    """A place in the output of the running cell whose content is replaced, from any thread.

    Args:
        shown: First content. A front end that can replace nothing keeps it.
    """

    def __init__(self, shown: RenderableType) -> None:
        # The kernel finds the cell by a context variable, which a new thread lacks.
        self._context = contextvars.copy_context()
        self._handle = import_module("IPython.display").DisplayHandle()
        self._handle.display(_bundle(shown), raw=True)

    def show(self, shown: RenderableType) -> None:
        """Replaces the content."""
        self._context.run(self._handle.update, _bundle(shown), raw=True)

    def clear(self) -> None:
        """Replaces the content by nothing."""
        self._context.run(self._handle.update, {"text/html": "", "text/plain": ""}, raw=True)


def _bundle(shown: RenderableType) -> dict[str, str]:
    return {"text/html": as_html(shown), "text/plain": as_text(shown)}


def in_frame(page: str) -> str:
    """Returns a page as a frame within a notebook's output, whose scripts reach only the page."""
    # Without it, links within the page would lead to the notebook's own address.
    page = page.replace("<head>", '<head><base href="about:srcdoc">', 1)
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="Report" sandbox="allow-scripts" '
        f'style="border:0;width:100%;height:{_FRAME_PX}px"></iframe>'
    )
