"""Redirects standard error, including the log of TensorFlow's C++ code and its libraries.

This is needed because the log level cannot be changed once TensorFlow is loaded.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from keras_gpukit.trials.batch_sizes.trainer import DoesNotFit

_DESCRIPTOR = 2
_OF_ALLOCATOR = b"bfc_allocator.cc"


@contextmanager
def standard_error_to(descriptor: int) -> Iterator[None]:
    """Redirects standard error to a file while the context is active.

    If standard error is closed, it does nothing.

    Args:
        descriptor: File descriptor of the file, open for writing.
    """
    try:
        shown = os.dup(_DESCRIPTOR)
    except OSError:
        yield
        return
    try:
        _lead_to(descriptor)
        yield
    finally:
        _lead_to(shown)
        os.close(shown)


def _lead_to(descriptor: int) -> None:
    # Text in Python's buffer belongs to the previous target of standard error.
    if sys.stderr is not None:
        sys.stderr.flush()
    os.dup2(descriptor, _DESCRIPTOR)


@contextmanager
def without_allocator_log() -> Iterator[None]:
    """Context manager for a trial: drops the hundreds of lines that the allocator logs.

    If the trial does not fit, all its output to standard error is dropped. Otherwise, the lines
    that are not from the allocator are passed on when the trial ends. It does nothing if standard
    error is closed or no temporary file can be made.
    """
    with ExitStack() as stack:
        try:
            held = stack.enter_context(tempfile.TemporaryFile())
        except OSError:
            yield
            return
        try:
            with standard_error_to(held.fileno()):
                yield
        except DoesNotFit:
            raise
        except BaseException:
            _pass_on(held)
            raise
        _pass_on(held)


def _pass_on(held: IO[bytes]) -> None:
    held.seek(0)
    rest = b"".join(line for line in held if _OF_ALLOCATOR not in line)
    if rest:
        os.write(_DESCRIPTOR, rest)
