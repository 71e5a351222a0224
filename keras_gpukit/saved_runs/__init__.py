"""Runs read back from their log folders, while they go on or afterwards."""

from __future__ import annotations

from keras_gpukit.saved_runs.log_folder import LogFolder, load_report

__all__ = ["LogFolder", "load_report"]
