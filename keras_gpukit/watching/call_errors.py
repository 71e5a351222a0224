"""Reports the exceptions of a monitored call, each with the line of user code it came from."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

from keras_gpukit.errors import Guard, one_line
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.watching.call_frame import frames
from keras_gpukit.watching.script_globals import is_of_the_script

# Exceptions of functions that TensorFlow calls or traces have the Python traceback in their text.
_LINES = re.compile(r'File "([^"]+)", line (\d+)')
_CAUSES = re.compile(r"^\s*(\w+(?:Error|Exception|Interrupt|Warning)): (.+)$", re.MULTILINE)
# Keras prints the message of an exception within a layer's call in bold.
_BOLD = re.compile("\x1b\\[1m(.+?)\x1b\\[0m", re.DOTALL)
_NODE = re.compile(r"^\{\{[^}]*\}\} ?")


class CallErrors:
    """Passes each exception to the registered actions, once.

    Attributes:
        last: Type and place of the last exception, such as "ValueError in step 1"; None if there
            was none.
        message: Message of that exception, in one line.
        line: Line of user code that it came from, such as "train.py:31"; None if unknown.
    """

    def __init__(self, step: Callable[[], int]) -> None:
        self.last: str | None = None
        self.message: str | None = None
        self.line: str | None = None
        self._step = step
        self._actions: list[Callable[[BaseException], None]] = []
        self._error: BaseException | None = None

    def add(self, action: Callable[[BaseException], None]) -> None:
        """Registers an action that is called with each exception."""
        self._actions.append(action)

    def of_step(self, error: BaseException) -> None:
        """Reports an exception of a step of the call itself."""
        self._tell(error, f"step {self._step() + 1:,}")  # a step that fails is not counted

    def of_validation(self, error: BaseException) -> None:
        """Reports an exception of a step of a validation inside `fit`."""
        self._tell(error, f"validation, after step {self._step():,}")

    def of_callback(self, error: BaseException) -> None:
        """Reports an exception of a callback."""
        self._tell(error, f"a callback, after step {self._step():,}")

    def ended_by(self, what: str, part: str) -> None:
        """Notes that something other than an exception ends the call, such as a signal."""
        places = {"first step": "in the first step", "validation": "in a validation"}
        self.last = f"{what} {places.get(part, f'after step {self._step():,}')}"

    def clear(self) -> None:
        """Forgets the exception, which keeps the call's data alive, and all actions."""
        self._actions.clear()
        self._error = None
        self._step = int  # returns 0

    def _tell(self, error: BaseException, where: str) -> None:
        if error is self._error:
            return  # a step's exception passes through the callback that ran the step
        self._error = error
        self.last = f"{type(error).__name__} in {where}"
        with Guard("Reading an error", "Its message is not reported."):
            kind, self.message = kind_and_message(error)
            self.last, self.line = f"{kind} in {where}", user_line(error)
        for action in tuple(self._actions):
            with Guard("Reading an error", "It is not reported."):
                action(error)


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
    calling = [(each.f_code.co_filename, each.f_lineno) for each in frames(sys._getframe())]
    for lines in (quoted, list(_lines_of_traceback(error)), calling[::-1]):
        own = [place(file, line) for file, line in lines if is_of_the_script(file)]
        if own:
            return own[-1]
    return None


def _lines_of_traceback(error: BaseException) -> Iterator[tuple[str, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
