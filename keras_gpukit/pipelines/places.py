"""The name of a pipeline's function as its author knows it, and its place in their code.

Private names of TensorFlow, seen on 2.21: the frames of an operation's traceback, and the source
maps of AutoGraph's conversions in `autograph.impl.api._TRANSPILER._cache`. Where one is gone, a
place is unknown.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
from typing import Any

from keras_gpukit.pipelines.cells import place

# The frames of a user's function follow this TensorFlow function in an operation's traceback.
CALLER = "wrapper_helper"
# Frames from this folder are in between if AutoGraph runs a function without converting it.
AUTOGRAPH = os.path.join("tensorflow", "python", "autograph")
# The prefix of the files that AutoGraph writes converted functions to.
GENERATED = "__autograph_generated_file"

KERAS_ADAPTERS = os.path.join("keras", "src", "trainers", "data_adapters")
TENSORFLOW_DATA = os.path.join("tensorflow", "python", "data")
# Functions of these keep their names, but their places help no user.
LIBRARIES = (os.path.join("tensorflow", "python"), os.path.join("keras", "src"))
# What Keras makes of arrays that are given to `fit`.
KERAS_OWN = {
    "permutation": "Keras' own shuffling of arrays",
    "slice_batch_indices": "Keras' own choice of examples for each batch",
    "grab_batch": "Keras' own batching of arrays",
}


def name_and_location(function: Any) -> tuple[str | None, str | None]:
    """Returns what to call a function, generator or object, and where it stands."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif hasattr(function, "python_function"):  # of a tf.function
            function = function.python_function
        else:
            break
    if inspect.ismethod(function):
        function = function.__func__
    code = getattr(function, "__code__", None) or getattr(function, "gi_code", None)
    if not isinstance(code, types.CodeType):
        if isinstance(function, type | types.BuiltinFunctionType):
            return function.__name__, None
        return type(function).__name__, None
    name = getattr(function, "__qualname__", code.co_name)
    return _in_code(name.rpartition("<locals>.")[2], code.co_filename, code.co_firstlineno)


def name_and_location_in_graph(graph: Any, depth: int) -> tuple[str | None, str | None]:
    """Returns the same from a function's graph, if the Python function itself is gone.

    The line is the first one in the function that made an operation.

    Args:
        graph: The function's graph.
        depth: How many functions of the pipeline the function is nested in.
    """
    for operation in graph.get_operations():
        frames = [each for each in operation.traceback if AUTOGRAPH not in each.filename]
        called = [at for at, frame in enumerate(frames) if frame.name == CALLER]
        if len(called) > depth and called[depth] + 1 < len(frames):
            frame = frames[called[depth] + 1]
            name, filename, line = frame.name, frame.filename, frame.lineno
            if os.path.basename(filename).startswith(GENERATED):
                name, filename, line = _before_conversion(name, filename, line)
            # AutoGraph turns a lambda into a function of another name.
            called_as = "<lambda>" if graph.name.endswith("_lambda") else name
            name, location = _in_code(called_as, filename, line)
            if name is not None:
                return name, location
    return None, None


def _before_conversion(name: str, filename: str, line: int) -> tuple[str, str | None, int]:
    """Returns the function, file and line that AutoGraph generated a line of code from.

    Operations' tracebacks already have them, except for a function that a converted one defines.
    """
    try:
        from tensorflow.python.autograph.impl import api

        converted = [
            factory
            for factories in list(api._TRANSPILER._cache._cache.values())
            for factory in factories.values()
        ]
        for factory in converted:
            origin = factory.source_map.get((filename, line))
            if origin is not None:
                return origin.function_name, origin.loc.filename, origin.loc.lineno
    except (ImportError, AttributeError):
        pass
    return name.removeprefix("tf__"), None, line


def _in_code(name: str, filename: str | None, line: int) -> tuple[str | None, str | None]:
    if filename is None:
        return (None if name == "<lambda>" else name), None
    if KERAS_ADAPTERS in filename:
        return KERAS_OWN.get(name, f"Keras' own {name}"), None
    if TENSORFLOW_DATA in filename:
        return None, None
    if any(library in filename for library in LIBRARIES):
        return name, None
    location = place(filename, line)
    return (f"lambda at {location}" if name == "<lambda>" else name), location
