"""Output of a job's processes: lines on the launcher's screen, and a file for each process."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from keras_gpukit.distributed.launching.failures import Tail, is_chatter
from keras_gpukit.distributed.launching.job import Task

_READ_BYTES = 1 << 16
_LONGEST = 1 << 16
_BAR_EVERY_S = 30.0
"""Seconds between two lines with a progress bar, if there is no terminal in which to draw it."""
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


def without_progress(line: bytes) -> bytes:
    """Removes Keras' progress output from a line, which may have other output after it.

    Seen in Keras 3.12 to 3.15: "Epoch 1/3", and "7/10 ━━━━ 0s 5ms/step - loss: 0.1".
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


_ERASE = b"\r\x1b[K"
_CLIPPED = b"\x1b[?7l%s\x1b[?7h"  # a terminal cuts what does not fit in its line
_COLOURS = (b"36", b"33", b"35", b"32", b"34")


class Screen:
    """One output stream of the launcher: lines of all processes, and below them a progress bar.

    Attributes:
        is_terminal: Whether a progress bar can be drawn.
        last: Name of the process that wrote the last line, ignoring TensorFlow's log.
    """

    def __init__(self, stream: IO[str], environ: Mapping[str, str]) -> None:
        self._descriptor = stream.fileno()
        self.is_terminal = stream.isatty()
        self.last = ""
        self._coloured = self.is_terminal and not environ.get("NO_COLOR")
        self._drawn = b""

    def write_line(self, line: bytes, name: str = "", colour: int = 0) -> None:
        """Writes a line of a process, or of the launcher, above the progress bar."""
        erase = _ERASE if self._drawn else b""
        self._write(erase + self._mark(name, colour) + line + b"\n" + self._drawn)
        if not is_chatter(line):
            self.last = name

    def draw(self, bar: bytes, name: str = "", colour: int = 0) -> None:
        """Replaces the progress bar; an empty one removes it. Needs a terminal."""
        self._drawn = _CLIPPED % (self._mark(name, colour) + bar) if bar else b""
        self._write(_ERASE + self._drawn)

    def _mark(self, name: str, colour: int) -> bytes:
        text = f"[{name}]".encode()
        if self._coloured:
            text = b"\x1b[%sm%s\x1b[0m" % (_COLOURS[colour % len(_COLOURS)], text)
        return text + b" " if name else b""

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


class Stream:
    """Standard output or standard error of a process.

    Attributes:
        inner: File descriptor that the process writes to; the launcher closes it after the start.
        outer: File descriptor that becomes ready when there is output for `read_available`.
    """

    def __init__(
        self,
        task: Task,
        colour: int,
        screen: Screen,
        tail: Tail,
        file: IO[bytes] | None,
        *,
        is_error: bool,
    ) -> None:
        self._task, self._colour, self._screen = task, colour, screen
        self._tail, self._file, self._is_error = tail, file, is_error
        self._lines = Lines()
        self._shown_s = time.monotonic()
        self._is_drawn = False
        self.outer, self.inner = os.pipe()
        os.set_blocking(self.outer, False)

    def read_available(self) -> bool:
        """Reads the available output, without waiting."""
        try:
            data = os.read(self.outer, _READ_BYTES)
        except BlockingIOError:
            return False
        self._take(data)
        return bool(data)

    def close(self) -> None:
        """Reads the remaining output of a process that has ended, and closes the stream."""
        while self.read_available():
            pass
        if self._lines.unfinished:
            self._take(b"\n")
        os.close(self.outer)

    def _take(self, data: bytes) -> None:
        lines = self._lines.feed(data)
        if self._is_drawn and lines:
            self._screen.draw(b"")
            self._is_drawn = False
        for line in lines:
            self._add(line)
        bar = self._lines.unfinished if self._task.is_chief else b""
        if bar and self._screen.is_terminal:
            self._screen.draw(bar, self._task.name, self._colour)
            self._is_drawn = True
        elif bar and time.monotonic() - self._shown_s >= _BAR_EVERY_S:
            self._show(bar)  # its line ends with the epoch, which may take hours

    def _add(self, line: bytes) -> None:
        self._tail.add_line(line, time.monotonic(), is_error=self._is_error)
        if self._file is not None:
            self._file.write(line + b"\n")
        shown = line if self._task.is_chief else without_progress(line)
        if shown or not line:
            self._show(shown)

    def _show(self, line: bytes) -> None:
        self._screen.write_line(line, self._task.name, self._colour)
        self._shown_s = time.monotonic()


@dataclass(frozen=True)
class Output:
    """Destinations of the output of all processes: screens, and a file for each in a folder."""

    screens: tuple[Screen, Screen]
    command: str
    folder: Path | None

    def say(self, text: str) -> None:
        """Prints a message of the launcher."""
        self.screens[1].write_line(f"keras-gpukit launch: {text}".encode())

    def open_log(self, task: Task) -> IO[bytes] | None:
        """Opens the file of a process without a buffer, at its end; None if nothing is written."""
        if self.folder is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        file = (self.folder / f"{task.name.replace(' ', '-')}.log").open("ab", buffering=0)
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"--- {started} {task.name}: {self.command}\n".encode())
        return file

    def variables(self, task: Task) -> dict[str, str]:
        """Returns the width that the prefix leaves in a terminal, for programs that draw tables."""
        if not self.screens[0].is_terminal:
            return {}
        return {"COLUMNS": str(max(shutil.get_terminal_size().columns - len(task.name) - 3, 20))}
