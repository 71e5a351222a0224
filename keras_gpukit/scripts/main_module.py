"""Runs a script or a module as `__main__`, as if Python itself had been started with it.

Reads the exception that ends it.

Private name of Python, seen in 3.10 to 3.13: `runpy._run_module_as_main`, which `python -m` calls.
`runpy.run_module` is no replacement: it empties the module afterwards, while threads and exit
handlers still use it.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import linecache
import os
import pkgutil
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import keras_gpukit

if TYPE_CHECKING:
    from keras_gpukit.records.script import ScriptError

PACKAGE = os.path.dirname(os.path.abspath(keras_gpukit.__file__))
"""Folder of this package, with which the file names of its frames start."""
_START = os.path.abspath(__file__)

ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def hide_own_frames(hook: ExceptHook) -> ExceptHook:
    """Returns an exception hook that removes this package's frames and then calls `hook`."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        for exception in _with_causes(error, set()):
            # Python's own hook shows the exception's traceback, other hooks the one passed to them.
            exception.__traceback__ = _without_own_frames(exception.__traceback__)
        hook(kind, error, error.__traceback__)

    return show


def _with_causes(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """Yields an exception, and all exceptions that would be shown with it."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    members = getattr(error, "exceptions", ())  # of an exception group, from Python 3.11 on
    for cause in (error.__cause__, error.__context__, *members):
        if isinstance(cause, BaseException):
            yield from _with_causes(cause, seen)


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


_ended_by: list[type[BaseException]] = []
"""Type of the exception that ended the script, other than `SystemExit`; empty without one."""
failures: list[ScriptError] = []
"""That exception, as records have it; empty without one, and for an interrupt."""


class CannotOpenError(Exception):
    """The script cannot be opened; the message is the one that Python prints."""


def run_main(script: str | None, module: str | None, arguments: Sequence[str]) -> None:
    """Runs a script, which may be a folder or zip file with a `__main__.py`, or else a module.

    Its exceptions pass through. If the script's file cannot be read, it raises `CannotOpenError`.
    """
    if module is not None:  # as `python -m` does
        sys.argv = ["-m", *arguments]
        _replace_main()
        _first_on_path(os.getcwd())
        _leaving_no_frames(_run_module_as_main, module, True)
    elif script is not None:
        _run_script(script, arguments)


def _run_script(path: str, arguments: Sequence[str]) -> None:
    sys.argv = [path, *arguments]
    if pkgutil.get_importer(path) is not None:
        _replace_main()
        _first_on_path(os.path.abspath(path))
        _leaving_no_frames(_run_module_as_main, "__main__", False)
        return
    absolute = os.path.abspath(path)
    program = _read(absolute)
    main = _replace_main()
    main.__loader__ = SourceFileLoader("__main__", absolute)
    main.__dict__.update({"__file__": absolute, "__cached__": None})
    _first_on_path(os.path.dirname(os.path.realpath(absolute)))
    _leaving_no_frames(_execute, program, absolute, main.__dict__)


def keep_interrupted() -> None:
    """Makes Python still end the process by SIGINT if Ctrl-C ended the script; an exit handler.

    CPython notes that it must do so, but forgets it if an exit handler runs source code, as the
    definition of a dataclass does. Source code that raises the exception again restores the note.
    """
    if _ended_by == [KeyboardInterrupt]:
        with contextlib.suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


def _read(path: str) -> bytes | CodeType:
    """Returns a file's bytes, or its code object if the file is compiled."""
    try:
        with io.open_code(path) as file:
            code = pkgutil.read_code(file)
            file.seek(0)
            return code or file.read()
    except OSError as error:
        raise CannotOpenError(
            f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}"
        ) from error


def _execute(program: bytes | CodeType, path: str, names: dict[str, Any]) -> None:
    if not isinstance(program, CodeType):
        program = compile(program, path, "exec", dont_inherit=True)
    exec(program, names)


def _replace_main() -> ModuleType:
    """Replaces our `__main__` by an empty one, with the attributes that Python gives it."""
    main = ModuleType("__main__")
    main.__dict__.update({"__annotations__": {}, "__builtins__": builtins})
    sys.modules["__main__"] = main
    return main


def _first_on_path(folder: str) -> None:
    """Replaces our command's folder on `sys.path`, unless Python adds no folder (`python -P`)."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = folder


def _run_module_as_main(name: str, alter_argv: bool) -> None:
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _leaving_no_frames(run: Callable[..., None], *arguments: Any) -> None:
    """Runs a function; an exception that ends the process is shown without this package's frames.

    The exception passes on to Python, which prints it with the exception hook that is in place by
    then, and ends the process as usual for that exception.
    """
    try:
        run(*arguments)
    except SystemExit:
        raise
    except BaseException as error:
        _ended_by.append(type(error))
        if isinstance(error, Exception):
            with contextlib.suppress(Exception):
                failures.append(read_error(error))
        sys.excepthook = hide_own_frames(sys.excepthook)
        raise


def read_error(error: Exception) -> ScriptError:
    """Returns what is known of an exception, while the frames that it passed still exist.

    If memory ran out, that includes what the script keeps there.
    """
    from keras_gpukit.monitoring.call_errors import kind_and_message, user_line
    from keras_gpukit.records.script import ScriptError

    record = ScriptError(*kind_and_message(error), user_line(error))
    if "tensorflow" in sys.modules:
        with contextlib.suppress(Exception):  # as if its import has failed
            return _with_memory(record, error)
    return record


def _with_memory(record: ScriptError, error: Exception) -> ScriptError:
    from keras_gpukit.memory.oom_message import read_message
    from keras_gpukit.memory.out_of_memory import is_out_of_memory
    from keras_gpukit.monitoring.kept_tensors import KeptTensors
    from keras_gpukit.monitoring.script_globals import is_of_the_script

    said = read_message(str(getattr(error, "message", error)))
    if said is None or not is_out_of_memory(error):
        return record
    passed = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [frame for frame in passed if is_of_the_script(frame.f_code.co_filename)]
    functions = [_Variables(frame) for frame in own if frame.f_code.co_name != "<module>"]
    device = said.device or "GPU:0"
    found = KeptTensors().read_largest(functions)
    kept = (container for container in found if container.where == device)
    largest = max(kept, key=lambda container: container.size_bytes, default=None)
    record = replace(record, device=device, asked_bytes=said.asked_bytes)
    if largest is None or largest.size_bytes < (said.asked_bytes or 0):
        return record
    largest = replace(largest, name=largest.name.removeprefix(f"{_Variables.__name__}."))
    files = dict.fromkeys(frame.f_code.co_filename for frame in own)
    return replace(record, kept=largest, kept_line=_line_that_adds(largest.name, files))


class _Variables:
    """A function's variables, as attributes."""

    def __init__(self, frame: FrameType) -> None:
        vars(self).update(frame.f_locals)


def _line_that_adds(name: str, files: dict[str, None]) -> str | None:
    from keras_gpukit.input.pipelines.places import place

    variable = re.escape(name.rpartition(".")[2])
    adds = re.compile(rf"\b{variable}(\.(append|add|extend|update)\(|\[.+\] = | \+= )")
    for file in files:
        for number, text in enumerate(linecache.getlines(file), 1):
            if adds.search(text):
                return place(file, number)
    return None
