"""Loads TensorFlow and Keras when it is imported, for processes that are forked from this one.

What their libraries log is dropped: each trial loads them for itself if this failed, and says why.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module

_STANDARD_ERROR = 2


def _load() -> None:
    shown, nowhere = os.dup(_STANDARD_ERROR), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STANDARD_ERROR)
    try:
        for name in ("tensorflow", "keras"):
            with suppress(Exception):
                import_module(name)
    finally:
        os.dup2(shown, _STANDARD_ERROR)
        os.close(shown)
        os.close(nowhere)


_load()
