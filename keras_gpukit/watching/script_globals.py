"""Collections in the global variables of a script and of the modules that belong to it.

Those modules are the script itself, or a notebook, and what was imported from outside of Python's
own library and of the installed packages.
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

COLLECTIONS = (list, tuple, dict, set, frozenset, deque)
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_OWN = __name__.partition(".")[0]


def is_collection(value: Any) -> bool:
    """Whether something is a list or the like; a proxy is not asked what it stands for."""
    return issubclass(type(value), COLLECTIONS)


def global_collections() -> Iterator[tuple[str, str, Any]]:
    """Yields the module, the variable and the value of each collection.

    Also of those that are attributes of a global variable, if that is a class of these modules or
    an object of one. Public names come first: what has two is called by that one.
    """
    modules = _modules()
    own = {module.__name__ for module in modules}
    for module in modules:
        variables = vars(module)
        names = list(variables)  # at once: another thread may add some
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
    """The script's own modules, which are found again once others were imported."""
    names = _names_of_own(len(sys.modules))
    found = [sys.modules.get(name) for name in names]
    # What the script imports is named by the module that has made it.
    return sorted(
        (each for each in found if isinstance(each, ModuleType)),
        key=lambda module: module.__name__ == "__main__",
    )


@functools.lru_cache(maxsize=1)
def _names_of_own(loaded: int) -> tuple[str, ...]:
    """To look through the thousands of modules that are loaded takes milliseconds."""
    return tuple(
        name
        for name, module in tuple(sys.modules.items())
        if isinstance(module, ModuleType) and _is_own(name, vars(module).get("__file__"))
    )


def _is_own(name: str, file: Any) -> bool:
    if name == "__main__":
        return True
    is_installed = not isinstance(file, str) or any(each in file for each in _PACKAGES)
    return not (is_installed or file.startswith(_library()) or name.partition(".")[0] == _OWN)


@functools.cache
def _library() -> tuple[str, ...]:
    """The folders of Python's own library."""
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
