"""Whether the process stood still: stopped by a signal, or frozen with its container."""

from __future__ import annotations

import time
from collections.abc import Callable

# A tick that is later than this was not merely unlucky; our choice.
LATE_S = 2.0


class Heartbeat:
    """Is beaten by a thread at an interval; a beat that comes far too late tells a stop.

    Args:
        interval_s: Time between two beats.
        now: The clock, in seconds.
    """

    def __init__(self, interval_s: float, now: Callable[[], float] = time.perf_counter) -> None:
        self._longest_s = interval_s + LATE_S
        self._now = now
        self._beaten_s = now()
        self._stopped_s: float | None = None

    def beat(self) -> None:
        """The thread is alive."""
        now_s = self._now()
        if now_s - self._beaten_s > self._longest_s:
            self._stopped_s = now_s
        self._beaten_s = now_s

    def stopped_since(self, moment_s: float) -> bool:
        """Whether the process stood still at any time since a moment of the clock."""
        if self._now() - self._beaten_s > self._longest_s:
            return True  # it goes on only now, and the beat is still to come
        return self._stopped_s is not None and self._stopped_s >= moment_s
