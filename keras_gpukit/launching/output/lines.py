"""Bytes of a terminal's output as lines."""

from __future__ import annotations

import re

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
    """Cuts a stream into lines as a terminal shows them in the end.

    Of a line that was overwritten by carriage returns, as a progress bar is, only the last state
    is left.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the lines that are complete, without their ends."""
        *complete, rest = (self._rest + data).split(b"\n")
        # Of a bar that is drawn for hours, nothing is to be kept but the last state.
        self._rest = rest if len(rest) < _LONGEST else _last_state(rest)[-_LONGEST:]
        return [_last_state(line) for line in complete]

    @property
    def unfinished(self) -> bytes:
        """The state of the line that has no end yet, such as a bar."""
        return _last_state(self._rest)

    def end(self) -> list[bytes]:
        """Returns what has no end yet, if anything."""
        rest, self._rest = _last_state(self._rest), b""
        return [rest] if rest else []


def without_progress(line: bytes) -> bytes:
    """Returns what is left of a line without what Keras prints to show how far it is.

    Seen in Keras 3.12 to 3.15: "Epoch 1/3", and "7/10 ━━━━ 0s 5ms/step - loss: 0.1", which other
    output may follow.

    Returns:
        The line itself where it has no progress in it; nothing where it has nothing else.
    """
    plain = _STYLE.sub(b"", line)
    if _EPOCH.fullmatch(plain.strip()):
        return b""
    bar = _BAR.match(plain)
    return line if bar is None else plain[bar.end() :].strip()


def _last_state(line: bytes) -> bytes:
    """What stands in a line after its carriage returns and backspaces."""
    states = [state.strip(b"\b") for state in line.split(b"\r")]
    return next((state for state in reversed(states) if state), b"")
