"""Captures profiles from a run, and reads profiles without TensorBoard."""

from __future__ import annotations

from keras_gpukit.profiling.read import read_profile
from keras_gpukit.records.search import find_profiles

__all__ = ["find_profiles", "read_profile"]
