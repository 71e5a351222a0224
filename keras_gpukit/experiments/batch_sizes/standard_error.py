"""Leads standard error elsewhere, also for the C++ code of TensorFlow and its libraries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_DESCRIPTOR = 2


@contextmanager
def standard_error_to(descriptor: int) -> Iterator[None]:
    """While it is entered, standard error goes to a file.

    Where standard error is closed, it does nothing.

    Args:
        descriptor: Of the file, open for writing.
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
    # What Python holds back belongs to where standard error led before.
    if sys.stderr is not None:
        sys.stderr.flush()
    os.dup2(descriptor, _DESCRIPTOR)
