"""Reads the output of one process, shows it, keeps the last lines, and writes it to a file."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from keras_gpukit.distributed.launching.job import Task
from keras_gpukit.distributed.launching.lines import Lines, Tail, without_progress
from keras_gpukit.distributed.launching.screen import Screen, Terminal

_READ_BYTES = 1 << 16
_BAR_EVERY_S = 30.0
"""Seconds between two lines with a progress bar, if there is no terminal in which to draw it."""


@dataclass(eq=False)
class Stream:
    """Standard output or standard error of a process, or both if they share a terminal.

    Attributes:
        inner: File descriptor that the process writes to; the launcher closes it after the start.
        outer: File descriptor that becomes ready when there is output for `read`.
    """

    _task: Task
    _colour: int
    _screen: Screen
    _tail: Tail
    _file: IO[bytes] | None
    _has_errors: bool

    def __post_init__(self) -> None:
        self._lines = Lines()
        self._shown_s = time.monotonic()
        self._terminal: Terminal | None = None
        if self._task.is_chief and self._screen.is_terminal:
            self._terminal = Terminal(self._screen.descriptor, narrower=len(self._task.name) + 3)
            self.outer, self.inner = self._terminal.outer, self._terminal.inner
        else:
            self.outer, self.inner = os.pipe()
        os.set_blocking(self.outer, False)

    def read(self) -> bool:
        """Reads the available output, without waiting."""
        try:
            data = os.read(self.outer, _READ_BYTES)
        except OSError:  # nothing at this moment, or the end of a pseudo-terminal
            return False
        if self._terminal is not None:
            self._screen.draw(data, self._task.name, self._colour)
        for line in self._lines.feed(data):
            self._add(line)
        if self._task.is_chief and self._terminal is None:
            self._show_bar()
        return bool(data)

    def close(self) -> None:
        """Reads the remaining output of a process that has ended, and closes the stream."""
        while self.read():
            pass
        for line in self._lines.end():
            self._add(line)
        if self._terminal is not None:
            self._screen.end_line()
        os.close(self.outer)

    def resize(self) -> None:
        """Adopts the new size of the launcher's terminal."""
        if self._terminal is not None:
            self._terminal.resize()

    def _show_bar(self) -> None:
        """Shows an unfinished progress bar: its line ends with the epoch, which may take hours."""
        bar = self._lines.unfinished
        if bar and time.monotonic() - self._shown_s >= _BAR_EVERY_S:
            self._show(bar)

    def _show(self, line: bytes) -> None:
        self._screen.write_line(line, self._task.name, self._colour)
        self._shown_s = time.monotonic()

    def _add(self, line: bytes) -> None:
        self._tail.add(line, time.monotonic(), is_error=self._has_errors)
        if self._file is not None:
            self._file.write(line + b"\n")
        if self._terminal is not None:
            self._screen.remember(line, self._task.name)
            return
        shown = line if self._task.is_chief else without_progress(line)
        if shown or not line:
            self._show(shown)


def streams_of(
    task: Task, colour: int, screens: tuple[Screen, Screen], tail: Tail, file: IO[bytes] | None
) -> tuple[Stream, ...]:
    """Opens the streams of a process: one if it draws in the launcher's terminal, else two."""
    wanted = screens if screens[0] is not screens[1] or not task.is_chief else screens[:1]
    return tuple(
        Stream(task, colour, screen, tail, file, number == len(wanted))
        for number, screen in enumerate(wanted, start=1)
    )


@dataclass(frozen=True)
class Output:
    """Destinations of the output of all processes: screens, and a file for each in a folder."""

    screens: tuple[Screen, Screen]
    command: str
    folder: Path | None

    def tell(self, text: str) -> None:
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
