"""When to capture: at given steps, now and then, or on demand. Each says why, or None.

The time and the step are arguments: what a trigger says depends on nothing else but what it was
told before.
"""

from __future__ import annotations

import signal
import stat
import threading
import time
from collections.abc import Callable, Collection
from math import inf
from pathlib import Path
from typing import Any


class StepSchedule:
    """Given steps, and every so many.

    Args:
        at_steps: Steps of the run, the first one being 1.
        every_steps: A capture at each multiple of it, or None.
    """

    def __init__(self, at_steps: Collection[int], every_steps: int | None = None) -> None:
        self._at_steps = sorted(at_steps)
        self._every_steps = every_steps

    def next_after(self, step: int) -> float:
        """Returns the first step after `step` at which one is due, or infinity."""
        given = next((each for each in self._at_steps if each > step), inf)
        if self._every_steps is None:
            return given
        return min(given, (step // self._every_steps + 1) * self._every_steps)


class EveryInterval:
    """Once an interval, the first time at its end.

    Args:
        interval_s: From one time to the next.
        now_s: Now.
    """

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._due_s = now_s + interval_s

    def due(self, now_s: float) -> str | None:
        """Says so when the interval is over."""
        if now_s < self._due_s:
            return None
        self._due_s = now_s + self._interval_s
        return f"every {self._interval_s / 60:g} minutes"


class RequestFile:
    """A file that is there when a capture is wanted. It is removed when it was seen.

    Workers of a cluster that share the folder are all asked by the same file: it stays for a while,
    each of them answers it once, and touching it again asks all again.

    Args:
        path: The file.
        stays_s: How long it stays after it was seen.
        now: The clock, in seconds.
    """

    def __init__(
        self, path: Path, stays_s: float = 0.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._stays_s = stays_s
        self._now = now
        self._answered: tuple[int, int] | None = None
        self._answered_s = 0.0

    def due(self) -> str | None:
        """Says so when the file is there, and was not answered before.

        Raises:
            OSError: If it cannot be removed.
        """
        try:
            found = self._path.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISDIR(found.st_mode):
            return None  # a folder of that name is not a request
        request = found.st_ino, found.st_mtime_ns
        is_new = request != self._answered
        if is_new:
            self._answered, self._answered_s = request, self._now()
        if self._now() - self._answered_s >= self._stays_s:
            self.withdraw()
        return f"{self._path.name} was touched" if is_new else None

    def withdraw(self) -> None:
        """Removes a file that was answered; another worker may have been first.

        Raises:
            OSError: If it cannot be removed.
        """
        if self._answered is not None:
            self._path.unlink(missing_ok=True)
            self._answered = None


class RequestSignal:
    """A signal to this process that asks for a capture. It stands in for what handled it before.

    Args:
        number: The signal.
        asked: Called, on the main thread, when the signal comes.

    Raises:
        ValueError: If this is not the main thread, the only one that can set a handler.
    """

    def __init__(self, number: signal.Signals, asked: Callable[[str], None]) -> None:
        put_signals_back()
        self._number = number
        self._asked = asked
        self._listens = True
        self._before = signal.signal(number, self._handle)

    def close(self) -> None:
        """Puts the handler back that was there before.

        Only the main thread can. From another one that is left to `put_signals_back`, or to the
        next such signal, which Python handles on the main thread.
        """
        self._listens = False
        if threading.current_thread() is threading.main_thread():
            self._put_back()
        else:
            _left.append(self)

    def _put_back(self) -> bool:
        """Returns whether ours was the handler."""
        if self in _left:
            _left.remove(self)
        if signal.getsignal(self._number) != self._handle:
            return False
        # None is a handler that C code set; Python cannot put that one back.
        signal.signal(self._number, signal.SIG_DFL if self._before is None else self._before)
        return True

    def _handle(self, number: int, frame: Any) -> None:
        if self._listens:
            self._asked(f"{self._number.name} came")
        elif self._put_back():
            signal.raise_signal(number)  # the current handler, which may be the system's
        elif callable(self._before):
            self._before(number, frame)


# Closed on another thread than the main one.
_left: list[RequestSignal] = []


def put_signals_back() -> None:
    """Puts handlers back that could not be when their run ended; only the main thread can."""
    if threading.current_thread() is threading.main_thread():
        for each in tuple(_left):
            each.close()
