"""Finds the modules of the script itself: collections in their variables, lines that make layers.

They are the script or notebook, and all imported modules that are neither part of Python's standard
library nor of an installed package.
"""

from __future__ import annotations

import ast
import functools
import math
import os
import sys
import sysconfig
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_gpukit.input.pipelines.places import GENERATED, place
from keras_gpukit.layer_names import layers_in
from keras_gpukit.records.profile import LayerProfile, ProfileRecord
from keras_gpukit.sensors.stacks import outwards

COLLECTIONS = (list, tuple, dict, set, frozenset, deque)
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_OWN_FOLDER = str(Path(__file__).parents[1])
LARGEST_SOURCE_BYTES = 1 << 20
"""Larger files of a script are not read. Our choice: most have some kilobytes."""


def is_collection(value: Any) -> bool:
    """Whether a value is a list or the like. The type decides, so proxies are not evaluated."""
    return issubclass(type(value), COLLECTIONS)


def global_collections() -> Iterator[tuple[str, str, Any]]:
    """Yields the module, the variable name and the value of each collection.

    Includes attributes of global variables that are classes of the script's own modules, or
    instances of such classes. Public names come first, so they win for a collection with two names.
    """
    found = [sys.modules.get(name) for name in _names_of_own(len(sys.modules))]
    modules = [module for module in found if isinstance(module, ModuleType)]
    # The script comes last, so a collection that it imports is named by its original module.
    modules.sort(key=lambda module: module.__name__ == "__main__")
    own = {module.__name__ for module in modules}
    for module in modules:
        variables, label = vars(module), module.__name__
        file = variables.get("__file__")
        if label == "__main__" and isinstance(file, str):
            label = Path(file).name
        # Copied, because another thread may add variables.
        for name in sorted(variables, key=lambda name: name.startswith("_")):
            value = variables.get(name)
            if is_collection(value):
                yield label, name, value
            elif (value if isinstance(value, type) else type(value)).__module__ in own:
                for attribute, held in tuple(getattr(value, "__dict__", {}).items()):
                    if is_collection(held):
                        yield label, f"{name}.{attribute}", held


def own_files() -> tuple[Path, ...]:
    """Returns the files of the script's own modules."""
    found = (sys.modules.get(name) for name in _names_of_own(len(sys.modules)))
    files = (getattr(module, "__file__", None) for module in found)
    return tuple(Path(file) for file in dict.fromkeys(files) if isinstance(file, str))


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
        if name == "__main__" or (isinstance(module, ModuleType) and _is_own(module))
    )


def _is_own(module: ModuleType) -> bool:
    file = vars(module).get("__file__")
    return isinstance(file, str) and is_of_the_script(file)


def is_of_the_script(file: str) -> bool:
    """Whether a file of Python code belongs to neither a package nor Python nor this package."""
    folders = *_library(), *_installed_into(tuple(sys.path)), f"{_OWN_FOLDER}{os.sep}"
    return not (
        file.startswith(("<frozen", *folders))
        or any(mark in file for mark in (*_PACKAGES, GENERATED))
    )


def line_of_script() -> str | None:
    """Returns the innermost line of the script that this thread runs; None if it runs none."""
    for frame in outwards(sys._getframe(1)):
        if is_of_the_script(frame.f_code.co_filename):
            return place(frame.f_code.co_filename, frame.f_lineno)
    return None


@functools.lru_cache(maxsize=1)
def _installed_into(path: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the folders of Python's path with installed packages, as of `pip install --target`.

    They may have any name.
    """
    return tuple(f"{root}{os.sep}" for root in path if root and any(Path(root).glob("*.dist-info")))


@functools.cache
def _library() -> tuple[str, ...]:
    """Returns the folders of Python's standard library."""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return tuple(f"{folder}{os.sep}" for folder in folders | {*map(os.path.realpath, folders)})


def with_sources(profile: ProfileRecord, model: Any) -> ProfileRecord:
    """Returns the profile with class, line and sizes of each layer, as far as they are known."""
    known = {layer.name: layer for layer in layers_in(model)}
    calls = [call for path in own_files() for call in _calls(path)]

    def described(layer: LayerProfile) -> LayerProfile:
        # Layers within a layer, as the cell of an LSTM, are no layers of the model.
        names = reversed(layer.path.split("/"))
        found = next((known[name] for name in names if name in known), None)
        if layer.role != "layer" or found is None:
            return layer
        class_name = type(found).__name__
        shapes = [tuple(weight.shape) for weight in found.weights]
        return replace(
            layer,
            class_name=class_name,
            place=_place(calls, found.name, class_name),
            weight_shape=max(shapes, key=math.prod, default=None),
            inputs=_inputs(found),
        )

    return replace(profile, layers=tuple(map(described, profile.layers)))


def place_of(layer: Any) -> str | None:
    """Returns the line of the script that makes a layer, if it shows it."""
    calls = [call for path in own_files() for call in _calls(path)]
    return _place(calls, layer.name, type(layer).__name__)


def _inputs(layer: Any) -> int | None:
    with suppress(Exception):  # without an input, or with several
        return int(math.prod(layer.input.shape[1:]))
    return None


def _calls(path: Path) -> Iterator[tuple[str, str, str | None]]:
    """Yields place, name of the called function, and the argument `name` of each call in a file."""
    with suppress(Exception):  # a file that is gone, or is no Python
        if path.stat().st_size > LARGEST_SOURCE_BYTES:
            return
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
                given = (keyword.value for keyword in node.keywords if keyword.arg == "name")
                names = [str(value.value) for value in given if isinstance(value, ast.Constant)]
                yield f"{path.name}:{node.lineno}", str(called), names[0] if names else None


def _place(calls: list[tuple[str, str, str | None]], name: str, class_name: str) -> str | None:
    """Returns the line that gives a layer its name, else the only line that makes its class."""
    for found in (
        {line for line, _, given in calls if given == name},
        {line for line, called, _ in calls if called == class_name},
    ):
        if found:
            return found.pop() if len(found) == 1 else None
    return None
