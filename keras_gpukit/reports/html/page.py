"""The page as a whole."""

from __future__ import annotations

from keras_gpukit.records.report import Report


def plotly_js() -> str:
    """Plotly's own JavaScript, which draws the pictures (about 5 MB)."""
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    return source


def render(report: Report, *, plotly_src: str | None = None) -> str:
    """Returns the report as one HTML document.

    Args:
        report: What it tells.
        plotly_src: Where the page finds `plotly_js()`; None puts it into the page, which then needs
            nothing else.
    """
    raise NotImplementedError
