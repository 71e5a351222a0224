"""Whether the process stood still: stopped by a signal, or frozen with its container.

A thread that comes late may also have waited for the GIL. But then another thread had it and
worked: while a process stands still, its processor time does too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# A tick that is later than this was not merely unlucky; our choice.
LATE_S = 2.0
# With more processor time than this share of the silence, the process was at work.
WORKED_SHARE = 0.5


class Heartbeat:
    """Is beaten by a thread at an interval; a beat that comes far too late shows a stop.

    Args:
        interval_s: Time between two beats.
        now: The clock, in seconds.
        process_s: Processor time of this process, in seconds.
        on_stop: Called when the process goes on, with the last beat before and with the time.
    """

    def __init__(
        self,
        interval_s: float,
        now: Callable[[], float] = time.perf_counter,
        process_s: Callable[[], float] = time.process_time,
        on_stop: Callable[[float, float], None] = lambda began_s, ended_s: None,
    ) -> None:
        self._on_stop = on_stop
        self._longest_s = interval_s + LATE_S
        self._now = now
        self._process_s = process_s
        self._beaten_s, self._worked_s = now(), process_s()
        self._stopped_s: float | None = None

    def beat(self) -> None:
        """The thread is alive."""
        now_s = self._now()
        if self._stands_still(now_s):
            self._stopped_s = now_s
            self._on_stop(self._beaten_s, now_s)
        self._beaten_s, self._worked_s = now_s, self._process_s()

    def stopped_since(self, moment_s: float) -> bool:
        """Whether the process stood still at any time since a moment of the clock."""
        if self._stands_still(self._now()):
            return True  # it goes on only now, and the beat is still to come
        return self._stopped_s is not None and self._stopped_s >= moment_s

    def _stands_still(self, now_s: float) -> bool:
        silent_s = now_s - self._beaten_s
        if silent_s <= self._longest_s:
            return False
        return self._process_s() - self._worked_s < WORKED_SHARE * silent_s
