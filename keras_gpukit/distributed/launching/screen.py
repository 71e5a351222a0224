"""The launcher's output: lines of all processes, and below them the line that is being drawn."""

from __future__ import annotations

import os
import pty
import re
import struct
import termios
from collections import deque
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from typing import IO

from keras_gpukit.distributed.launching.lines import is_chatter

_ERASE = b"\r\x1b[K"
_ENDS = re.compile(rb"([\r\n])")
_MOVEMENTS = re.compile(rb"(?:\x1b\[[0-9;?]*[A-Za-ln-z]|[\x00-\x1a])*")
"""Control sequences other than styles, which end in "m"."""
_REMEMBERED = 400
_COLOURS = (b"36", b"33", b"35", b"32", b"34")


class Screen:
    """One output stream of the launcher.

    In a terminal, the process with the progress bar writes as if it were alone (`draw`). Its
    carriage returns and other controls take effect, and only a prefix is put before each of its
    lines. Lines of other processes are written above the line that is being drawn.

    Args:
        stream: Stream to write to, such as `sys.stdout`.
        environ: Environment variables; `NO_COLOR` disables colours: https://no-color.org
    """

    def __init__(self, stream: IO[str], environ: Mapping[str, str]) -> None:
        self.descriptor = stream.fileno()
        self.is_terminal = stream.isatty()
        self._coloured = self.is_terminal and not environ.get("NO_COLOR")
        self._drawn = b""  # text of the line that is being drawn, with its prefix
        self._at_start = True  # whether the next text overwrites that line
        self._shown: deque[tuple[str, bytes]] = deque(maxlen=_REMEMBERED)

    def write_line(self, line: bytes, prefix: str = "", colour: int = 0) -> None:
        """Writes a line of a process, or of the launcher."""
        whole = self._mark(prefix, colour) + line + b"\n"
        if self._drawn:
            whole = _ERASE + whole + self._drawn + (b"\r" if self._at_start else b"")
        self._write(whole)
        self.remember(line, prefix)

    def remember(self, line: bytes, prefix: str) -> None:
        """Records that a line was drawn and is complete."""
        if is_chatter(line):
            return  # log lines of processes that are being stopped do not hide earlier lines
        self._shown.append((prefix, line))

    def ends_with(self, lines: Sequence[bytes], prefix: str) -> bool:
        """Whether a process's lines are the last ones shown, ignoring TensorFlow's log."""
        shown = list(self._shown)[-len(lines) :]
        return bool(lines) and shown == [(prefix, line) for line in lines]

    def draw(self, data: bytes, prefix: str, colour: int = 0) -> None:
        """Writes output of the process with the progress bar, at the position of the cursor."""
        mark = self._mark(prefix, colour)
        written = b""
        for part in _ENDS.split(data):
            if part == b"\n" and self._at_start and not self._drawn:
                written += mark + part  # an empty line
            elif part in (b"\n", b"\r"):
                written += part
                self._at_start = True
                self._drawn = b"" if part == b"\n" else self._drawn
            elif part:
                written += self._in_line(part, mark)
        self._write(written)

    def end_line(self) -> None:
        """Ends the line that is being drawn, because its process has ended."""
        if self._drawn:
            self._write(b"\n")
        self._drawn = b""
        self._at_start = True

    def _in_line(self, part: bytes, mark: bytes) -> bytes:
        if not self._at_start:
            self._drawn += part
            return part
        movements = _MOVEMENTS.match(part)
        start = movements.end() if movements else 0
        if start == len(part):
            return part
        self._at_start = False
        self._drawn = mark + part[start:]
        return part[:start] + self._drawn

    def _mark(self, prefix: str, colour: int) -> bytes:
        if not prefix:
            return b""
        text = f"[{prefix}]".encode()
        if self._coloured:
            text = b"\x1b[" + _COLOURS[colour % len(_COLOURS)] + b"m" + text + b"\x1b[0m"
        return text + b" "

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.descriptor, data) :]


_NARROW = 20
_OUTPUT_FLAGS = 1  # index in the list that `termios.tcgetattr` returns


class Terminal:
    """A pseudo-terminal."""

    def __init__(self, real: int, narrower: int) -> None:
        self._real = real
        self._narrower = narrower
        self.outer, self.inner = pty.openpty()
        # The real terminal does all processing of output, such as adding CR before LF.
        attributes = termios.tcgetattr(self.inner)
        attributes[_OUTPUT_FLAGS] &= ~termios.OPOST
        termios.tcsetattr(self.inner, termios.TCSANOW, attributes)
        self.resize()

    def resize(self) -> None:
        """Adopts the size of the launcher's terminal, less the columns of the prefix."""
        size = os.get_terminal_size(self._real)
        # A terminal of unknown size has 0 columns; a narrow one is taken as it is.
        columns = max(size.columns - self._narrower, min(size.columns, _NARROW))
        ioctl(self.outer, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, columns, 0, 0))
