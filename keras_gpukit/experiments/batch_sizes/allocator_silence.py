"""Keeps off the terminal what TensorFlow's allocator logs when a trial in this process runs out.

Its C++ code writes hundreds of lines to standard error. The level of its log cannot be changed once
TensorFlow is loaded, so the descriptor leads to a file while a trial runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from keras_gpukit.experiments.batch_sizes.trainer import DoesNotFit

_STANDARD_ERROR = 2
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
            terminal = os.dup(_STANDARD_ERROR)
        except OSError:
            yield
            return
        stack.callback(os.close, terminal)
        _flush()
        os.dup2(held.fileno(), _STANDARD_ERROR)
        ran_out = False
        try:
            yield
        except DoesNotFit:
            ran_out = True
            raise
        finally:
            _flush()
            os.dup2(terminal, _STANDARD_ERROR)
            if not ran_out:
                _pass_on(held)


def _pass_on(held: IO[bytes]) -> None:
    held.seek(0)
    rest = b"".join(line for line in held if _OF_ALLOCATOR not in line)
    if rest:
        os.write(_STANDARD_ERROR, rest)


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
