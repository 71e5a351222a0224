"""Reads runs back from their log folders, while they are in progress or afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_gpukit.saved_runs.log_folder import LogFolder, load_report

__all__ = ["LogFolder", "load_report"]


def __getattr__(name: str) -> Any:
    """Imports the readers on first use: TensorBoard only looks for run files at its start."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from keras_gpukit.saved_runs import log_folder

    return getattr(log_folder, name)
