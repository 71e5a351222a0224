"""Removes this package's frames from tracebacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import TracebackType

import keras_gpukit

PACKAGE = os.path.dirname(os.path.abspath(keras_gpukit.__file__))
"""Folder of this package, with which the file names of its frames start."""
_START = os.path.join(PACKAGE, "scripts", "main_module.py")

ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def hide_own_frames(hook: ExceptHook) -> ExceptHook:
    """Returns an exception hook that removes this package's frames and then calls `hook`."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        for each in _with_causes(error, set()):
            # Python's own hook shows the exception's traceback, other hooks the one passed to them.
            each.__traceback__ = _without_own_frames(each.__traceback__)
        hook(kind, error, error.__traceback__)

    return show


def _with_causes(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """Yields an exception, and all exceptions that would be shown with it."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    members = getattr(error, "exceptions", ())  # of an exception group, from Python 3.11 on
    for each in (error.__cause__, error.__context__, *members):
        if isinstance(each, BaseException):
            yield from _with_causes(each, seen)


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    entries: list[TracebackType] = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    # The frames before the script's start belong to the command, and to the code that called it.
    starts = [at for at, entry in enumerate(entries) if _file(entry) == _START]
    kept: TracebackType | None = None
    for entry in reversed(entries[max(starts, default=-1) + 1 :]):
        if not _file(entry).startswith(PACKAGE + os.sep):
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename
