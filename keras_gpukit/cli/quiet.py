"""Keeps TensorFlow's log off the terminal."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@contextmanager
def quiet_tensorflow() -> Iterator[Callable[[], None]]:
    """Turns off TensorFlow's log from now on, unless the user chose a level.

    TensorFlow's libraries log at any level while they load and look for GPUs. So within the
    context, standard error goes to a file, which is shown if an exception leaves the context. With
    level 0 or 1, the user asks for this log, and standard error stays as it is.

    Yields:
        A function that shows what was logged so far.
    """
    if os.environ.setdefault(LEVEL, "3") in ("0", "1"):
        yield lambda: None
        return
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:

        def show() -> None:
            log.seek(0)
            os.write(terminal, log.read())

        os.dup2(log.fileno(), 2)
        try:
            yield show
        except BaseException:
            show()
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
