"""Loading TensorFlow without its log on the terminal."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def load_tensorflow_quietly() -> None:
    """Imports TensorFlow with its log turned off, unless the user chose a level.

    While they load, its libraries log whatever the level; for that time standard error goes to a
    file, which is shown if loading fails.
    """
    if LEVEL in os.environ:
        return
    os.environ[LEVEL] = "3"
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            import_module("tensorflow")
        except BaseException:
            log.seek(0)
            os.write(terminal, log.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
