"""Output as lines: what a terminal finally shows of it, and the traceback among the last."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

_LONGEST = 1 << 16
_STYLE = re.compile(rb"\x1b\[[\d;]*m")
_EPOCH = re.compile(rb"Epoch \d+/\d+")
_BAR = re.compile(
    rb"""
    \s* \d+/(\d+|Unknown)                       # steps
    \ + (\xe2\x94\x81)*                         # a bar, or none with verbose=2
    [\ -]* \d+ (:\d\d)* s?                      # the time that passed, or that is left
    ([\ -]* \d+ (us|ms|s)/\w+)?                 # for each step
    (\ -\ [^:]+:\ ([-+.\d]+(e[-+]?\d+)?|nan|inf))*  # metrics
    """,
    re.VERBOSE,
)


class Lines:
    """Splits a stream of bytes into lines, as a terminal finally shows them.

    If carriage returns overwrite a line, as in a progress bar, only the last state is kept.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the lines that are complete, without their ends."""
        *complete, rest = (self._rest + data).split(b"\n")
        # A bar may be drawn for hours: only its last state is kept.
        self._rest = rest if len(rest) < _LONGEST else _last_state(rest)[-_LONGEST:]
        return [_last_state(line) for line in complete]

    @property
    def unfinished(self) -> bytes:
        """Current state of the line that has not ended yet, such as a progress bar."""
        return _last_state(self._rest)

    def end(self) -> list[bytes]:
        """Returns the line that has not ended, if there is one."""
        rest, self._rest = _last_state(self._rest), b""
        return [rest] if rest else []


def without_progress(line: bytes) -> bytes:
    """Removes Keras' progress output from a line.

    Seen in Keras 3.12 to 3.15: "Epoch 1/3", and "7/10 ━━━━ 0s 5ms/step - loss: 0.1". Other output
    may follow the latter in the same line.

    Returns:
        The line itself if it has no progress output; empty if it has nothing else.
    """
    plain = _STYLE.sub(b"", line)
    if _EPOCH.fullmatch(plain.strip()):
        return b""
    bar = _BAR.match(plain)
    return line if bar is None else plain[bar.end() :].strip()


def _last_state(line: bytes) -> bytes:
    """Returns the final text of a line with carriage returns and backspaces."""
    states = [state.strip(b"\b") for state in line.split(b"\r")]
    return next((state for state in reversed(states) if state), b"")


_KEPT = 400
_BEGINS = b"Traceback (most recent call last):"
_CHAINED = (
    b"During handling of the above exception, another exception occurred:",
    b"The above exception was the direct cause of the following exception:",
)
_LOGGED = re.compile(rb"[IWEF]\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: [IWEF] ")
"""Beginning of a line in TensorFlow's own log."""
_CHATTER = re.compile(
    rb"[IW]\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: [IW] |WARNING: All log messages before "
)
"""Beginning of a line in TensorFlow's log that does not report an error."""


def is_chatter(line: bytes) -> bool:
    """Whether a line is from TensorFlow's log and does not report an error."""
    return _CHATTER.match(line) is not None


@dataclass(frozen=True)
class Traceback:
    """An exception that Python printed.

    Attributes:
        lines: Lines of the traceback, including those of the exceptions that led to it.
        at_s: Time at which the first line was read, on the clock `time.monotonic`.
    """

    lines: tuple[bytes, ...]
    at_s: float

    @property
    def exception(self) -> bytes:
        """The line that names the exception, which is the first one after the frames."""
        after = len(self.lines) - 1 - self.lines[::-1].index(_BEGINS) + 1
        names = (line for line in self.lines[after:] if line and not line.startswith((b" ", b"|")))
        return next(names, b"")


class Tail:
    """Keeps the last lines of a process."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=_KEPT)
        self._errors: deque[tuple[float, bytes]] = deque(maxlen=_KEPT)

    def add(self, line: bytes, at_s: float, *, is_error: bool) -> None:
        """Adds a line."""
        self._lines.append(line)
        if is_error:
            self._errors.append((at_s, line))

    def last(self, count: int) -> tuple[bytes, ...]:
        """Returns the last lines, without lines of TensorFlow's log that report no error."""
        return tuple(line for line in self._lines if not is_chatter(line))[-count:]

    def traceback(self) -> Traceback | None:
        """Returns the traceback that was printed last, without TensorFlow's log lines in it."""
        kept = [(at_s, line) for at_s, line in self._errors if not _LOGGED.match(line)]
        begins = [number for number, (_, line) in enumerate(kept) if line == _BEGINS]
        if not begins:
            return None
        first = begins.pop()
        while begins and any(line in _CHAINED for _, line in kept[begins[-1] : first]):
            first = begins.pop()
        lines = [line for _, line in kept[first:]]
        while lines and not lines[-1]:
            lines.pop()
        return Traceback(tuple(lines), kept[first][0])
