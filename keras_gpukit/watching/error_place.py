"""Message of an exception, and the line of user code that it came from."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import FrameType

from keras_gpukit.errors import one_line
from keras_gpukit.input.pipelines.cells import place
from keras_gpukit.watching.script_globals import is_of_the_script

# Exceptions of functions that TensorFlow calls or traces have the Python traceback in their text.
_LINES = re.compile(r'File "([^"]+)", line (\d+)')
_CAUSES = re.compile(r"^\s*(\w+(?:Error|Exception|Interrupt|Warning)): (.+)$", re.MULTILINE)
# Keras prints the message of an exception within a layer's call in bold.
_BOLD = re.compile("\x1b\\[1m(.+?)\x1b\\[0m", re.DOTALL)
_NODE = re.compile(r"^\{\{[^}]*\}\} ?")


def kind_and_message(error: BaseException) -> tuple[str, str]:
    """Returns the type and the message, in one line, of an exception or of the cause it quotes."""
    text = str(error)
    causes, bold = _CAUSES.findall(text), _BOLD.search(text)
    if causes:
        return causes[-1][0], one_line(causes[-1][1])
    return type(error).__name__, one_line(bold[1] if bold else _NODE.sub("", text))


def user_line(error: BaseException) -> str | None:
    """Returns the innermost line of user code that an exception passed, such as "train.py:31".

    If it came from a library alone, that is the line that called the library.
    """
    quoted = [(file, int(line)) for file, line in _LINES.findall(str(error))]
    for lines in (quoted, list(_lines_of_traceback(error)), list(_lines_of_stack())[::-1]):
        own = [place(file, line) for file, line in lines if is_of_the_script(file)]
        if own:
            return own[-1]
    return None


def _lines_of_traceback(error: BaseException) -> Iterator[tuple[str, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next


def _lines_of_stack() -> Iterator[tuple[str, int]]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
