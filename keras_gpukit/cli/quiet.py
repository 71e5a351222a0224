"""TensorFlow without its log on the terminal."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Turns TensorFlow's log off from here on, unless the user chose a level.

    While they load and look for GPUs, its libraries log whatever the level: within the context,
    standard error goes to a file, which is shown if an exception leaves it.
    """
    if LEVEL in os.environ:
        yield
        return
    os.environ[LEVEL] = "3"
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except BaseException:
            log.seek(0)
            os.write(terminal, log.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def load_tensorflow_quietly() -> None:
    """Imports TensorFlow without its log, which is shown if loading fails."""
    with quiet_tensorflow():
        import_module("tensorflow")
