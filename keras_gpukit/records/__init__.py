"""Frozen dataclasses that all other modules exchange, and functions that save and load them.

None is what is unknown, or does not exist. A field that ends in `_because` says why, in words.
Units end the names: `_s` are seconds, `_bytes` bytes, `_percent` 0 to 100, `_fraction` and `share`
0 to 1. Moments (`time_s`, `began_s`, `ended_s`, `made_s`) are seconds since the Unix epoch. The
`step` is the global step, which a later run of the same model continues. Docstrings describe the
fields whose names do not say it all.

Notebooks and tests import any of them from here; the package itself loads only the files it needs.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for file in iter_modules(__path__, f"{__name__}."):
            names = vars(import_module(file.name))
            if name in names:
                return names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
