"""Errors, warnings and the logger that are keras_gpukit's own.

Wrong arguments raise the built-in `ValueError` and `TypeError`; these are for what no argument
check can see.
"""

from __future__ import annotations

import logging


class GPUKitError(Exception):
    """Base of every error that is keras_gpukit's own."""


class NoGPUError(GPUKitError):
    """A GPU was required and none can be used; the message says why."""


class AlreadyInitializedError(GPUKitError, RuntimeError):
    """TensorFlow has started its devices, so a setting that must come first cannot be applied."""


class ProfileError(GPUKitError):
    """A file cannot be read as a profile; the message says what it is, and what to do."""


class GPUKitWarning(UserWarning):
    """Something was resolved or given up that the user should know; training goes on."""


logger = logging.getLogger("keras_gpukit")
"""Where a watched run says what it gave up on; never an exception, which would end training."""


def give_up(what: str, error: BaseException, consequence: str) -> None:
    """Says once that a part of the watching failed and what is lost by it."""
    logger.warning(
        "keras_gpukit: %s failed (%s: %s). %s Training goes on as if it were not watched.",
        what,
        type(error).__name__,
        error,
        consequence,
    )
