"""Captures profiles from a run, and reads profiles without TensorBoard.

`flops` counts the operations of a step, `placement` says on which device each ran, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keras_gpukit.records.names import find_profiles

if TYPE_CHECKING:
    from keras_gpukit.profiling.read import read_profile

__all__ = ["find_profiles", "read_profile"]


def __getattr__(name: str) -> Any:
    """Loads `read_profile` when it is used: most runs read no profile in their own process."""
    if name != "read_profile":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from keras_gpukit.profiling.read import read_profile

    return read_profile
