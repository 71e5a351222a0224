"""Name and place of a function in user code: the line of a file, or of a notebook cell."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from keras_gpukit.frameworks.tf_functions import before_conversion
from keras_gpukit.records.pipeline import ARRAYS, CallLine

# In an operation's traceback, this TensorFlow function calls the user's function.
CALLER = "wrapper_helper"
# Frames from this folder come in between if AutoGraph runs a function without converting it.
AUTOGRAPH = os.path.join("tensorflow", "python", "autograph")
# Prefix of the files that AutoGraph writes converted functions to.
GENERATED = "__autograph_generated_file"

KERAS_ADAPTERS = os.path.join("keras", "src", "trainers", "data_adapters")
TENSORFLOW_DATA = os.path.join("tensorflow", "python", "data")
NAMELESS = {"<lambda>": "lambda", "<genexpr>": "generator expression"}
# Functions of these libraries keep their names, but their places are of no use to users.
LIBRARIES = (
    os.path.join("tensorflow", "python"),
    os.path.join("keras", "src"),
    os.path.join("grain", "_src"),
    os.path.join("torch", "utils", "data"),
    os.path.join("keras_gpukit", "input"),
    os.path.join("keras_gpukit", "tuning"),
)
# Keras' own functions in the pipeline that it makes from arrays passed to `fit`.
KERAS_OWN = {
    "permutation": f"{ARRAYS}shuffling of arrays",
    "slice_batch_indices": f"{ARRAYS}choice of examples for each batch",
    "grab_batch": f"{ARRAYS}batching of arrays",
}

try:
    STARTED_IN = os.getcwd()  # a script may change it
except OSError:  # it was deleted
    STARTED_IN = ""

# Methods of a dataset that take a function.
_METHODS = {"map", "interleave", "filter", "flat_map"}

# Functions of libraries that make a whole pipeline, by the file or function that defines its parts.
HELPERS = {
    "image_dataset_utils.py": "image_dataset_from_directory",
    "text_dataset_utils.py": "text_dataset_from_directory",
    "audio_dataset_utils.py": "audio_dataset_from_directory",
    "timeseries_dataset_utils.py": "timeseries_dataset_from_array",
    "make_csv_dataset_v2": "make_csv_dataset",
}
# "In[3]", as IPython calls a cell in its tracebacks.
_IN_CELL = re.compile(r"In\s*\[(\d+)\]")
# The files of cells: /tmp/ipykernel_123/456.py in Jupyter, <ipython-input-3-abc> in terminals and
# older Colab.
_CELL_FILES = re.compile(r"ipykernel_\d+|ipython-input-(?P<number>\d+)-[0-9a-f]+")


def name_and_location(function: Any) -> tuple[str | None, str | None]:
    """Returns the name of a function, generator or other object, and its place in user code.

    The name is None for functions of tf.data itself. The place is None outside user code.
    """
    function = _defined(function)
    code = getattr(function, "__code__", None) or getattr(function, "gi_code", None)
    if not isinstance(code, types.CodeType):
        if isinstance(function, type | types.BuiltinFunctionType):
            return function.__name__, None
        return type(function).__name__, None
    name = getattr(function, "__qualname__", code.co_name)
    helper = HELPERS.get(os.path.basename(code.co_filename)) or HELPERS.get(name.split(".")[0])
    if helper is not None and _is_library(code.co_filename):
        return helper, None
    return _in_code(name.rpartition("<locals>.")[2], code.co_filename, code.co_firstlineno)


def calling_line(function: Any, graph: Any) -> CallLine | None:
    """Returns the line of user code that passes a function to `map`; None if it was not found.

    The function was traced when that line ran, so operations of its graph have it in their stacks.
    """
    code = getattr(_defined(function), "__code__", None)
    if code is None or _is_library(code.co_filename):
        return None
    frames, called = next(_stacks(graph), ([], [0]))
    outer = (frame for frame in reversed(frames[: called[0]]) if not _is_library(frame.filename))
    frame = next(outer, None)
    filename, line = (frame.filename, frame.lineno) if frame else (code.co_filename, None)
    return call_line(filename, code.co_name, code.co_firstlineno, line)


def _stacks(graph: Any) -> Iterator[tuple[Any, list[int]]]:
    """Yields the stacks of a function's operations, and where tf.data calls functions in them."""
    for operation in graph.get_operations():
        frames = [frame for frame in operation.traceback if AUTOGRAPH not in frame.filename]
        called = [at for at, frame in enumerate(frames) if frame.name == CALLER]
        if called:
            yield frames, called


def _is_library(filename: str) -> bool:
    return any(library in filename for library in LIBRARIES)


def _defined(function: Any) -> Any:
    """Returns the function that a `def` or `lambda` made, without what wraps it."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif hasattr(function, "python_function"):  # of a tf.function
            function = function.python_function
        else:
            break
    return function.__func__ if inspect.ismethod(function) else function


def is_lambda(name: str | None) -> bool:
    """Whether `name_and_location` returned this name for a lambda."""
    return name is not None and name.startswith(f"{NAMELESS['<lambda>']} at ")


def method_of(called: Any, name: str = "__call__") -> Any:
    """Returns the method that runs when an object is called; a function as it is."""
    method = getattr(type(called), name, None)
    return method if inspect.isfunction(method) else called


def name_and_location_in_graph(graph: Any, depth: int) -> tuple[str | None, str | None]:
    """Returns a function's name and place from its graph, if the Python function no longer exists.

    The line is the one that made the function's first operation. The function is nested in `depth`
    functions of the pipeline.
    """
    for frames, called in _stacks(graph):
        if len(called) > depth and called[depth] + 1 < len(frames):
            frame = frames[called[depth] + 1]
            name, filename, line = frame.name, frame.filename, frame.lineno
            if os.path.basename(filename).startswith(GENERATED):
                name, filename, line = before_conversion(name, filename, line)
            # AutoGraph converts a lambda to a function of another name.
            called_as = "<lambda>" if graph.name.endswith("_lambda") else name
            name, location = _in_code(called_as, filename, line)
            if name is not None:
                return name, location
    return None, None


def _in_code(name: str, filename: str | None, line: int) -> tuple[str | None, str | None]:
    if filename is None:
        return (None if name == "<lambda>" else name), None
    if KERAS_ADAPTERS in filename:
        return KERAS_OWN.get(name, f"{ARRAYS}{name}"), None
    if TENSORFLOW_DATA in filename:
        return None, None
    if _is_library(filename):
        return name, None
    location = place(filename, line)
    nameless = NAMELESS.get(name)
    return (f"{nameless} at {location}" if nameless else name), location


def call_line(filename: str, name: str, first_line: int, at: int | None) -> CallLine | None:
    """Returns the line that passes a function to `map` or a similar method of a dataset.

    The file is the one with the call, or that which defines the function. Its first line identifies
    a lambda. If the line that ran is unknown, there is an answer only if a single call in the file
    passes the function, and is no longer than a line.
    """
    calls = [
        call
        for call, passed in _calls(filename)
        if _is(passed, name, first_line)
        and (at is None or (call.func.end_lineno or 0) <= at <= (call.end_lineno or 0))
    ]
    call = calls[0] if len(calls) == 1 else None
    if call is None or call.func.end_lineno != call.end_lineno or not call.end_col_offset:
        return None if at is None else CallLine("", 0, place(filename, at))
    number = call.end_lineno or 0
    line = linecache.getline(filename, number).rstrip()
    end = len(line.encode()[: call.end_col_offset].decode())
    indent = len(line) - len(line.lstrip())
    return CallLine(line[indent:], end - indent, place(filename, number))


def _is(passed: ast.expr, name: str, first_line: int) -> bool:
    if isinstance(passed, ast.Lambda):
        return name == "<lambda>" and passed.lineno == first_line
    return getattr(passed, "id", getattr(passed, "attr", None)) == name


@functools.lru_cache(maxsize=16)
def _calls(filename: str) -> tuple[tuple[ast.Call, ast.expr], ...]:
    try:
        return tuple(_calls_in("".join(linecache.getlines(filename))))
    except (SyntaxError, ValueError):  # no Python code, as in a notebook with magic commands
        return ()


def _calls_in(source: str) -> Iterator[tuple[ast.Call, ast.expr]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            passed = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg)]
            if node.func.attr in _METHODS and passed:
                yield node, passed[0]


def place(filename: str, line: int) -> str:
    """Returns "data/load.py:12", or "cell 3, line 4" for code that was run in a notebook.

    Paths are relative to the folder in which Python started, so that terminals open them. A file
    outside of it has its name only.
    """
    cell = _cell(filename)
    if cell is not None:
        return f"{cell}, line {line}"
    path = os.path.normpath(os.path.join(STARTED_IN, filename))
    inside = os.path.join(STARTED_IN, "")
    shown = path.removeprefix(inside) if path.startswith(inside) else os.path.basename(path)
    return f"{shown}:{line}"


def _cell(filename: str) -> str | None:
    """Returns the name of a cell, with the number that the notebook shows; None for a file."""
    number = _number_by_ipython(filename)
    if number is not None:
        return f"cell {number}"
    like_a_cell = _CELL_FILES.search(filename)
    if like_a_cell is None:
        return None
    return f"cell {like_a_cell['number']}" if like_a_cell["number"] else "a notebook's cell"


def _number_by_ipython(filename: str) -> str | None:
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    try:
        # Returns ("Cell", "In[3]"), or None for a file; available since IPython 8.0.
        _, name = ipython.get_ipython().compile.format_code_name(filename)
    except (AttributeError, TypeError, ValueError):
        return None
    cell = _IN_CELL.search(str(name))
    return cell[1] if cell else None
