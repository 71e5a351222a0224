"""The report as one HTML page: records in, text out."""

from __future__ import annotations

from keras_gpukit.reports.html.page import plotly_js, render

__all__ = ["plotly_js", "render"]
