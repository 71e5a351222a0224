"""Reads the output of one process, shows it, keeps the last lines, and writes it to a file."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from keras_gpukit.distributed.launching.job import Task
from keras_gpukit.distributed.launching.lines import Lines, Tail, without_progress
from keras_gpukit.distributed.launching.screen import Screen, Terminal

_READ_BYTES = 1 << 16
_BAR_EVERY_S = 30.0
"""Seconds between two lines with a progress bar, if there is no terminal in which to draw it."""


class Stream:
    """Standard output or standard error of a process, or both if they share a terminal.

    Attributes:
        inner: File descriptor that the process writes to; the launcher closes it after the start.
        outer: File descriptor that becomes ready when there is output for `read`.
    """

    def __init__(
        self,
        task: Task,
        colour: int,
        screen: Screen,
        tail: Tail,
        file: IO[bytes] | None,
        *,
        has_errors: bool,
    ) -> None:
        self._task = task
        self._colour = colour
        self._screen = screen
        self._tail = tail
        self._file = file
        self._has_errors = has_errors
        self._lines = Lines()
        self._shown_s = time.monotonic()
        self._terminal: Terminal | None = None
        if task.is_chief and screen.is_terminal:
            self._terminal = Terminal(screen.descriptor, narrower=len(task.name) + 3)
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
        Stream(task, colour, screen, tail, file, has_errors=number == len(wanted))
        for number, screen in enumerate(wanted, start=1)
    )


class LogFiles:
    """Opens `worker-0.log`, `worker-1.log`, … in a folder, and appends to them if they exist."""

    def __init__(self, folder: Path | None, command: Sequence[str]) -> None:
        self._folder = folder
        self._command = " ".join(command)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def open(self, task: Task) -> IO[bytes] | None:
        """Opens the file of a process without a buffer; returns None if nothing is written."""
        if self._folder is None:
            return None
        path = self._folder / f"{task.name.replace(' ', '-')}.log"
        file = path.open("ab", buffering=0)
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"--- {started} {task.name}: {self._command}\n".encode())
        return file
