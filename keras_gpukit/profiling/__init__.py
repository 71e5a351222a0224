"""Profiles: capturing one from a run, and reading one without TensorBoard."""

from __future__ import annotations

from keras_gpukit.profiling.find import find_profiles
from keras_gpukit.profiling.read import read_profile
from keras_gpukit.profiling.xprof import ask_xprof

__all__ = ["ask_xprof", "find_profiles", "read_profile"]
