"""A terminal for the process with the progress bar, as large as the launcher's own terminal."""

from __future__ import annotations

import os
import pty
import struct
import termios
from fcntl import ioctl

_NARROW = 20
_OUTPUT_FLAGS = 1  # index in the list that `termios.tcgetattr` returns


class Terminal:
    """A pseudo-terminal.

    Args:
        real: File descriptor of the launcher's terminal.
        narrower: Columns that the prefix takes.

    Attributes:
        inner: File descriptor for the process.
        outer: File descriptor from which its output is read.
    """

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
