"""Reports the exceptions of a monitored call, each with the line of user code it came from."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Callable
from typing import Literal, NamedTuple

from keras_gpukit.errors import Guard, one_line
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.monitoring.script_globals import is_of_the_script, line_of_script
from keras_gpukit.records.run import EndedKind

# Exceptions of functions that TensorFlow calls or traces have the Python traceback in their text.
_LINES = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')
_CAUSES = re.compile(r"^\s*(\w+(?:Error|Exception|Interrupt|Warning)): (.+)$", re.MULTILINE)
# Keras prints the message of an exception within a layer's call in bold.
_BOLD = re.compile("\x1b\\[1m(.+?)\x1b\\[0m", re.DOTALL)
_NODE = re.compile(r"^\{\{[^}]*\}\} ?")
# The operation that fetches a batch passes on the exceptions of the pipeline.
_FETCH = "IteratorGetNext"
_KERAS_TRAINER = re.compile(r"keras/src/.*trainer\.py$")
_ROLES = re.compile(r"keras/src/(losses|metrics)/")
_CALLS = ("fit", "evaluate", "predict")
_STEPS = ("train_step", "test_step", "predict_step")
_ON_PURPOSE = ("KeyboardInterrupt", "SystemExit")
_MESSAGE = 280
"""Longest message that is reported; our choice: two sentences, of which the last often says what to
do."""
Source = Literal["step", "validation", "callback"]


class CodeLine(NamedTuple):
    """A line of Python code in a traceback; the function is None if its name is not known."""

    file: str
    line: int
    function: str | None


class CallErrors:
    """Passes each exception to the registered actions, once.

    Attributes:
        last: Type and place of the last exception, such as "ValueError in step 1"; None if there
            was none.
        kind: Kind of what ended the call; None if nothing was seen.
        message: Message of that exception, in one line.
        line: Line of user code that it came from, such as "train.py:31"; None if unknown.
        source: Code that raised it: a step of the call, a validation inside `fit`, or a callback.
    """

    def __init__(
        self,
        step: Callable[[], int],
        epoch: Callable[[], int | None] = lambda: None,
        first_step: int = 0,
    ) -> None:
        self.last: str | None = None
        self.kind: EndedKind | None = None
        self.message: str | None = None
        self.line: str | None = None
        self.source: Source | None = None
        self._step = step
        self._epoch = epoch
        self._first_step = first_step
        self._actions: list[Callable[[BaseException], None]] = []
        self._error: BaseException | None = None

    def add_action(self, action: Callable[[BaseException], None]) -> None:
        """Registers an action that is called with each exception."""
        self._actions.append(action)

    def of_step(self, error: BaseException) -> None:
        """Reports an exception of a step of the call itself."""
        step = self._step()  # a step that fails is not counted
        is_first = step == self._first_step > 0
        self._report(error, "step", "its first step" if is_first else f"step {step + 1:,}")

    def of_validation(self, error: BaseException) -> None:
        """Reports an exception of a step of a validation inside `fit`."""
        self._report(error, "validation", f"validation, after step {self._step():,}")

    def of_callback(self, error: BaseException) -> None:
        """Reports an exception of a callback."""
        name, logs, code = "a callback", None, ""
        for frame, line in traceback.walk_tb(error.__traceback__):
            callback = frame.f_locals.get("self")
            code = linecache.getline(frame.f_code.co_filename, line)
            if frame.f_code.co_name.startswith("on_") and hasattr(callback, "set_model"):
                name, logs = type(callback).__name__, frame.f_locals.get("logs")
        self._report(error, "callback", f"{name}, after step {self._step():,}")
        _, of_path, reason = str(error).rpartition("Reason: ")  # as ModelCheckpoint words it
        if isinstance(error, KeyError) and isinstance(logs, dict) and (of_path or "logs[" in code):
            key = re.sub(r"[\\'\"]", "", reason)
            self.message = f"no {key!r} in the logs, which have {', '.join(logs)}"

    def ended_by(self, what: str, part: str) -> None:
        """Notes that something other than an exception ends the call, such as a signal."""
        places = {"first step": "in the first step", "validation": "in a validation"}
        self.kind = "signal"
        self.last = f"{what} {places.get(part, f'after step {self._step():,}')}"

    def clear(self) -> None:
        """Forgets the exception, which keeps the call's data alive, and all actions."""
        self._actions.clear()
        self._error = None
        self._step = int  # returns 0
        self._epoch = lambda: None

    def _report(self, error: BaseException, source: Source, where: str) -> None:
        if error is self._error:
            return  # a step's exception passes through the callback that ran the step
        self._error, self.source = error, source
        is_input = source != "callback" and _FETCH in str(error)
        self.kind = "input" if is_input else "error"
        where = f"the input of {where}" if is_input else where
        if (epoch := self._epoch()) is not None:
            where += f", in epoch {epoch:,}"
        self.last = f"{type(error).__name__} in {where}"
        with Guard("Reading an error", "Its message is not reported."):
            kind, self.message = kind_and_message(error)
            self.last, self.line = f"{kind} in {where}", user_line(error)
            self.kind = "stopped" if kind in _ON_PURPOSE else self.kind
        for action in tuple(self._actions):
            with Guard("Reading an error", "It is not reported."):
                action(error)


def kind_and_message(error: BaseException) -> tuple[str, str]:
    """Returns the type and the message, in one line, of an exception or of the cause it quotes."""
    text = str(error)
    causes, bold = _CAUSES.findall(text), _BOLD.search(text)
    if causes:
        return causes[-1][0], one_line(causes[-1][1], _MESSAGE)
    return type(error).__name__, one_line(bold[1] if bold else _NODE.sub("", text), _MESSAGE)


def user_line(error: BaseException) -> str | None:
    """Returns the innermost line of user code that an exception passed, such as "train.py:31".

    If it came from a library alone, that is the line that called the library.
    """
    for lines in _tracebacks(error):
        own = [line for line in lines if is_of_the_script(line.file)]
        if own:
            return place(own[-1].file, own[-1].line)
    return line_of_script()


def line_within_step(error: BaseException) -> CodeLine | None:
    """Returns the innermost line of user code that runs within a step, or None.

    It made the operation that failed, as a loss or a `train_step` does. The line that calls `fit`
    is outside the step.
    """
    for lines in _tracebacks(error):
        own = [line for line in lines if line.function in _STEPS] + _within_step(lines)
        own = [line for line in own if is_of_the_script(line.file)]
        if own:
            return own[-1]
    return None


def role_within_step(error: BaseException) -> Literal["loss", "metric"] | None:
    """Returns whether an exception passed Keras' losses or metrics in a step; None if neither."""
    for lines in _tracebacks(error):
        found = [_ROLES.search(line.file) for line in _within_step(lines)]
        roles = [match[1] for match in found if match]
        if roles:
            return "loss" if roles[-1] == "losses" else "metric"
    return None


def _within_step(lines: list[CodeLine]) -> list[CodeLine]:
    """Returns the lines below Keras' trainer, such as those of layers and losses."""
    steps = [at for at, line in enumerate(lines) if _KERAS_TRAINER.search(line.file)]
    return lines[steps[-1] + 1 :] if steps else []


def call_within(error: BaseException) -> str | None:
    """Returns the innermost call that an exception passed: "fit", "evaluate" or "predict"."""
    for lines in _tracebacks(error):
        calls = [
            line.function
            for line in lines
            if line.function in _CALLS and _KERAS_TRAINER.search(line.file)
        ]
        if calls:
            return calls[-1]
    return None


def _tracebacks(error: BaseException) -> tuple[list[CodeLine], ...]:
    """Returns the lines that the message quotes and those of the traceback, innermost last."""
    found = _LINES.findall(str(error))
    quoted = [CodeLine(file, int(line), name or None) for file, line, name in found]
    passed = traceback.walk_tb(error.__traceback__)
    codes = ((frame.f_code, line) for frame, line in passed)
    return quoted, [CodeLine(code.co_filename, line, code.co_name) for code, line in codes]
