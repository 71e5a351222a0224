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

from keras_gpukit.input.pipelines.tf_private import before_conversion
from keras_gpukit.records.pipeline import CallLine

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
)
# Keras' own functions in the pipeline that it makes from arrays passed to `fit`.
KERAS = "Keras' own"
KERAS_OWN = {
    "permutation": f"{KERAS} shuffling of arrays",
    "slice_batch_indices": f"{KERAS} choice of examples for each batch",
    "grab_batch": f"{KERAS} batching of arrays",
}

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
    if helper is not None and any(library in code.co_filename for library in LIBRARIES):
        return helper, None
    return _in_code(name.rpartition("<locals>.")[2], code.co_filename, code.co_firstlineno)


def calling_line(function: Any) -> CallLine | None:
    """Returns the line of user code that passes a function to `map`; None if it was not found."""
    code = getattr(_defined(function), "__code__", None)
    if code is None or any(library in code.co_filename for library in LIBRARIES):
        return None
    return call_line(code.co_filename, code.co_name, code.co_firstlineno)


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

    The line is the one that made the function's first operation.

    Args:
        graph: Graph of the function.
        depth: Number of functions of the pipeline that the function is nested in.
    """
    for operation in graph.get_operations():
        frames = [each for each in operation.traceback if AUTOGRAPH not in each.filename]
        called = [at for at, frame in enumerate(frames) if frame.name == CALLER]
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
        return KERAS_OWN.get(name, f"{KERAS} {name}"), None
    if TENSORFLOW_DATA in filename:
        return None, None
    if any(library in filename for library in LIBRARIES):
        return name, None
    location = place(filename, line)
    nameless = NAMELESS.get(name)
    return (f"{nameless} at {location}" if nameless else name), location


def call_line(filename: str, name: str, first_line: int) -> CallLine | None:
    """Returns the line that passes a function to `map` or a similar method of a dataset.

    It is looked for in the file that defines the function. None if the file cannot be read, if no
    call or several calls pass the function, or if the call is longer than a line.
    """
    calls = [call for call, passed in _calls(filename) if _is(passed, name, first_line)]
    if len(calls) != 1 or calls[0].lineno != calls[0].end_lineno or not calls[0].end_col_offset:
        return None
    line = linecache.getline(filename, calls[0].lineno).rstrip()
    end = len(line.encode()[: calls[0].end_col_offset].decode())
    indent = len(line) - len(line.lstrip())
    return CallLine(line[indent:], end - indent, place(filename, calls[0].lineno))


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
            passed = [*node.args[:1], *(each.value for each in node.keywords if each.arg)]
            if node.func.attr in _METHODS and passed:
                yield node, passed[0]


def place(filename: str, line: int) -> str:
    """Returns "train.py:12", or "cell 3, line 4" for code that was run in a notebook."""
    cell = _cell(filename)
    return f"{os.path.basename(filename)}:{line}" if cell is None else f"{cell}, line {line}"


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
