"""The line of user code that adds a stage to a pipeline."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator

from keras_gpukit.records.pipeline import CallLine

_METHODS = {"map", "interleave", "filter", "flat_map"}


def call_line(filename: str, name: str, first_line: int) -> CallLine | None:
    """Returns the line that passes a function to `map` or a similar method of a dataset.

    It is looked for in the file that defines the function. None if the file cannot be read, if no
    call or several calls pass the function, or if the call is longer than a line.

    Args:
        filename: File of the function.
        name: Name of the function, "<lambda>" for a lambda.
        first_line: Line on which it begins.
    """
    calls = [call for call, passed in _calls(filename) if _is(passed, name, first_line)]
    if len(calls) != 1 or calls[0].lineno != calls[0].end_lineno or not calls[0].end_col_offset:
        return None
    line = linecache.getline(filename, calls[0].lineno).rstrip()
    end = len(line.encode()[: calls[0].end_col_offset].decode())
    indent = len(line) - len(line.lstrip())
    return CallLine(line[indent:], end - indent)


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
