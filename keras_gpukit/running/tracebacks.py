"""Tracebacks as they would be without this package's frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import TracebackType

import keras_gpukit

PACKAGE = os.path.dirname(os.path.abspath(keras_gpukit.__file__))
"""What the file names of this package's frames start with."""
_START = os.path.join(PACKAGE, "running", "main_module.py")

ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def hide_own_frames(hook: ExceptHook) -> ExceptHook:
    """Returns an exception hook that removes the frames and calls another one."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        for each in _with_causes(error, set()):
            # Python's own hook shows what the exception holds, others what they are given.
            each.__traceback__ = _without_own_frames(each.__traceback__)
        hook(kind, error, error.__traceback__)

    return show


def _with_causes(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """An exception and all that would be shown with it."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    members = getattr(error, "exceptions", ())  # of a group, from Python 3.11 on
    for each in (error.__cause__, error.__context__, *members):
        if isinstance(each, BaseException):
            yield from _with_causes(each, seen)


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    entries: list[TracebackType] = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    # Before the script starts, there are also frames of the command and of what started it.
    starts = [at for at, entry in enumerate(entries) if _file(entry) == _START]
    kept: TracebackType | None = None
    for entry in reversed(entries[max(starts, default=-1) + 1 :]):
        if not _file(entry).startswith(PACKAGE + os.sep):
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename
