"""Splits output for a terminal into lines."""

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
