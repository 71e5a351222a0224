"""Writes a changed call of the user's code: the same call with other arguments."""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Mapping
from types import FrameType
from typing import Any, NamedTuple

from keras_gpukit.input.pipelines.places import place
from keras_gpukit.records.finding import Change
from keras_gpukit.watching.call_frame import frames
from keras_gpukit.watching.script_globals import is_of_the_script


class CallPlace(NamedTuple):
    """Line of user code that calls a method."""

    filename: str
    line: int


def calling_place(frame: FrameType | None) -> CallPlace | None:
    """Returns the innermost line of user code among a frame and those that called it."""
    for each in frames(frame):
        if is_of_the_script(each.f_code.co_filename):
            return CallPlace(each.f_code.co_filename, each.f_lineno)
    return None


def changed_call(at: CallPlace | None, method: str, arguments: Mapping[str, Any]) -> Change:
    """Returns a call before and after arguments are added or replaced.

    Args:
        at: Line that calls; if it is None or cannot be read, the call has "..." for its arguments.
        method: Name of the method that is called.
        arguments: Arguments to add or replace, by their names.
    """
    added = [f"{name}={value!r}" for name, value in arguments.items()]
    source = "".join(linecache.getlines(at.filename)) if at else ""
    call = _call(source, at.line, method) if at else None
    if at is None or call is None:
        return Change(f"{method}(...)", f"{method}(..., {', '.join(added)})")
    before = after = _segment(source, call)
    for each in call.keywords:
        value = ast.get_source_segment(source, each.value)
        if each.arg and each.arg in arguments and value is not None:
            name = f"{each.arg}="
            # Spaces around the equals sign are rare: then the argument is added, and stands twice.
            if f"{name}{value}" in after:
                after = after.replace(f"{name}{value}", f"{name}{arguments[each.arg]!r}", 1)
                added = [text for text in added if not text.startswith(name)]
    if added:
        inner = after[:-1].rstrip().rstrip(",")
        separator = "" if inner.endswith("(") else ", "
        after = f"{inner}{separator}{', '.join(added)})"
    return Change(before, after, place(*at))


def _call(source: str, line: int, method: str) -> ast.Call | None:
    """Returns the shortest call of a method at a line; None without one."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):  # no Python code, as in a notebook with magic commands
        return None
    calls = [
        each
        for each in nodes
        if isinstance(each, ast.Call)
        and getattr(each.func, "attr", getattr(each.func, "id", None)) == method
        and each.lineno <= line <= (each.end_lineno or each.lineno)
    ]
    return min(calls, key=lambda each: (each.end_lineno or 0) - each.lineno, default=None)


def _segment(source: str, call: ast.Call) -> str:
    first = source.splitlines()[call.lineno - 1]
    indent = first[: len(first) - len(first.lstrip())]
    return textwrap.dedent(indent + (ast.get_source_segment(source, call) or ""))
