"""Finds collections in the global variables of a script and its own modules.

The own modules are the script or notebook itself, and all imported modules that are neither part of
Python's standard library nor of an installed package.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_gpukit.input.pipelines.places import GENERATED

COLLECTIONS = (list, tuple, dict, set, frozenset, deque)
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_OWN_FOLDER = str(Path(__file__).parents[1])


def is_collection(value: Any) -> bool:
    """Whether a value is a list or the like. The type decides, so proxies are not evaluated."""
    return issubclass(type(value), COLLECTIONS)


def global_collections() -> Iterator[tuple[str, str, Any]]:
    """Yields the module, the variable name and the value of each collection.

    Includes attributes of global variables that are classes of the script's own modules, or
    instances of such classes. Public names come first, so they win for a collection with two names.
    """
    modules = _modules()
    own = {module.__name__ for module in modules}
    for module in modules:
        variables = vars(module)
        names = list(variables)  # copied, because another thread may add variables
        names.sort(key=lambda name: name.startswith("_"))
        for name in names:
            value = variables.get(name)
            if is_collection(value):
                yield _label(module), name, value
            elif _class_of(value).__module__ in own:
                for attribute, held in tuple(_attributes(value).items()):
                    if is_collection(held):
                        yield _label(module), f"{name}.{attribute}", held


def _modules() -> list[ModuleType]:
    """Returns the script's own modules. The search is repeated once more modules are loaded."""
    names = _names_of_own(len(sys.modules))
    found = [sys.modules.get(name) for name in names]
    # The script comes last, so a collection that it imports is named by its original module.
    return sorted(
        (each for each in found if isinstance(each, ModuleType)),
        key=lambda module: module.__name__ == "__main__",
    )


@functools.lru_cache(maxsize=1)
def _names_of_own(loaded: int) -> tuple[str, ...]:
    """Returns the names of the script's own modules.

    The result is cached by the number of loaded modules, since searching thousands of modules takes
    milliseconds.
    """
    # Names only, not items: thousands of new tuples would trigger garbage collections, of which a
    # full one takes 0.15 s with TensorFlow loaded.
    modules = ((name, sys.modules.get(name)) for name in tuple(sys.modules))
    return tuple(
        name
        for name, module in modules
        if isinstance(module, ModuleType) and _is_own(name, vars(module).get("__file__"))
    )


def _is_own(name: str, file: Any) -> bool:
    if name == "__main__":
        return True
    return isinstance(file, str) and is_of_the_script(file)


def is_of_the_script(file: str) -> bool:
    """Whether a file of Python code belongs to neither a package nor Python nor this package."""
    return not (
        file.startswith(("<frozen", *_library(), f"{_OWN_FOLDER}{os.sep}"))
        or any(each in file for each in (*_PACKAGES, GENERATED))
    )


@functools.cache
def _library() -> tuple[str, ...]:
    """Returns the folders of Python's standard library."""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return tuple(f"{each}{os.sep}" for each in folders | {*map(os.path.realpath, folders)})


def _label(module: ModuleType) -> str:
    file = vars(module).get("__file__")
    if module.__name__ != "__main__":
        return module.__name__
    return Path(file).name if isinstance(file, str) else "__main__"


def _class_of(value: Any) -> type:
    return value if isinstance(value, type) else type(value)


def _attributes(value: Any) -> Mapping[str, Any]:
    return getattr(value, "__dict__", {})
