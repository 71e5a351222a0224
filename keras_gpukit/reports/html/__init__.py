"""Renders a report, made of records, as one HTML page."""

from __future__ import annotations

from keras_gpukit.reports.html.page import drawing_js, plotly_js, render
from keras_gpukit.reports.html.runs_table import run_id

__all__ = ["drawing_js", "plotly_js", "render", "run_id"]
