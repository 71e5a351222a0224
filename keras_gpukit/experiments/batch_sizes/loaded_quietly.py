"""Loads TensorFlow and Keras when it is imported, for processes that are forked from this one.

What their libraries log is dropped: each trial loads them for itself if this failed, and says why.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module

from keras_gpukit.experiments.batch_sizes.standard_error import standard_error_to

with open(os.devnull, "wb") as nowhere, standard_error_to(nowhere.fileno()):
    for name in ("tensorflow", "keras"):
        with suppress(Exception):
            import_module(name)
