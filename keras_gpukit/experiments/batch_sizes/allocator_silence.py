"""Keeps off the terminal what TensorFlow's allocator logs when a trial in this process runs out.

Its C++ code writes hundreds of lines to standard error. The level of its log cannot be changed once
TensorFlow is loaded, so standard error leads to a file while a trial runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from keras_gpukit.experiments.batch_sizes.standard_error import standard_error_to
from keras_gpukit.experiments.batch_sizes.trainer import DoesNotFit

_OF_ALLOCATOR = b"bfc_allocator.cc"


@contextmanager
def without_allocator_log() -> Iterator[None]:
    """Entered around a trial: drops what is logged in one that does not fit.

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
        os.write(2, rest)
