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
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")
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
    modules = tuple(_modules())
    own = {module.__name__ for module in modules}
    # What the script imports is named by the module that has made it.
    for module in sorted(modules, key=lambda module: module.__name__ == "__main__"):
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


def _modules() -> Iterator[ModuleType]:
    for name, module in tuple(sys.modules.items()):
        if not isinstance(module, ModuleType) or name.partition(".")[0] == _OWN:
            continue
        file = vars(module).get("__file__")
        if name == "__main__" or (isinstance(file, str) and _belongs_to_a_script(file)):
            yield module


@functools.cache
def _belongs_to_a_script(file: str) -> bool:
    path = os.path.realpath(file)
    return not path.startswith(_library_folders()) and not any(each in path for each in _PACKAGES)


@functools.cache
def _library_folders() -> tuple[str, ...]:
    folders = {os.path.realpath(sysconfig.get_path(name)) for name in _INSTALLED}
    return tuple(f"{folder}{os.sep}" for folder in folders)


def _label(module: ModuleType) -> str:
    file = vars(module).get("__file__")
    if module.__name__ != "__main__":
        return module.__name__
    return Path(file).name if isinstance(file, str) else "__main__"


def _class_of(value: Any) -> type:
    return value if isinstance(value, type) else type(value)


def _attributes(value: Any) -> Mapping[str, Any]:
    return getattr(value, "__dict__", {})
