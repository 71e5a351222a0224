"""Redirects standard error, including the log of TensorFlow's C++ code and its libraries.

This is needed because the log level cannot be changed once TensorFlow is loaded.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_DESCRIPTOR = 2
_OF_ALLOCATOR = b"bfc_allocator.cc"


@contextmanager
def standard_error_to(descriptor: int) -> Iterator[None]:
    """Redirects standard error to an open file descriptor; does nothing if it is closed."""
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
def without_allocator_log(out_of_memory: type[Exception]) -> Iterator[None]:
    """Drops the hundreds of lines that the allocator logs; all lines if `out_of_memory` is raised.

    The other lines are passed on at the end.
    """
    with tempfile.TemporaryFile() as held:
        is_shown = True
        try:
            with standard_error_to(held.fileno()):
                yield
        except out_of_memory:
            is_shown = False
            raise
        finally:
            held.seek(0)
            rest = b"".join(line for line in held if _OF_ALLOCATOR not in line)
            if rest and is_shown:
                os.write(_DESCRIPTOR, rest)
