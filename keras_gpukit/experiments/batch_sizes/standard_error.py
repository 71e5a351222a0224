"""Standard error led elsewhere, also what the C++ code of TensorFlow and its libraries logs.

The level of its log cannot be changed once TensorFlow is loaded.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from keras_gpukit.experiments.batch_sizes.trainer import DoesNotFit

_DESCRIPTOR = 2
_OF_ALLOCATOR = b"bfc_allocator.cc"


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


@contextmanager
def without_allocator_log() -> Iterator[None]:
    """Entered around a trial: drops the allocator's hundreds of lines in one that does not fit.

    Of other trials, it passes on what is not the allocator's. Where standard error is closed, or
    nothing can be written to a temporary file, it does nothing.
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
