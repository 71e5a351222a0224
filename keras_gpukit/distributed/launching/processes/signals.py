"""The signals that a launcher gets, as events for its event loop."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HANDLED = (*ENDING, signal.SIGCHLD, signal.SIGWINCH)


class Signals:
    """Context manager that collects signals; works only in the main thread of a process.

    Attributes:
        descriptor: File descriptor that becomes readable when a signal has arrived.
    """

    def __init__(self) -> None:
        self.descriptor, self._written = os.pipe()
        for each in (self.descriptor, self._written):
            os.set_blocking(each, False)
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        self._wakeup_before = signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        for number in _HANDLED:
            # Signals that the caller ignores stay ignored, such as SIGHUP under nohup.
            if signal.getsignal(number) is not signal.SIG_IGN or number not in ENDING:
                self._before[number] = signal.signal(number, _noted)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.descriptor)
        os.close(self._written)

    def read(self) -> list[signal.Signals]:
        """Returns the signals that have arrived since the last call."""
        try:
            return [signal.Signals(number) for number in os.read(self.descriptor, 512)]
        except BlockingIOError:
            return []


def _noted(number: int, frame: FrameType | None) -> None:
    """Does nothing: Python writes a signal's number to the pipe only if it has a handler."""
