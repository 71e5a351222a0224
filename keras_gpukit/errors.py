"""Errors and warnings that keras_gpukit raises of its own.

Wrong arguments raise the built-in `ValueError` and `TypeError`; these are for what no argument
check can see.
"""

from __future__ import annotations


class GPUKitError(Exception):
    """Base of every error that is keras_gpukit's own."""


class NoGPUError(GPUKitError):
    """A GPU was required and none can be used; the message says why."""


class AlreadyInitializedError(GPUKitError, RuntimeError):
    """TensorFlow has started its devices, so a setting that must come first cannot be applied."""


class GPUKitWarning(UserWarning):
    """Something was resolved or given up that the user should know; training goes on."""
