"""Loads TensorFlow and Keras when it is imported, for processes forked from the current one.

The log output of their libraries is dropped. If loading fails here, each trial process loads them
itself and reports the error.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module

from keras_gpukit.tuning.processes import standard_error_to

with open(os.devnull, "wb") as nowhere, standard_error_to(nowhere.fileno()):
    for name in ("tensorflow", "keras"):
        with suppress(Exception):
            import_module(name)
