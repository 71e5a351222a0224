"""Detects that the process was suspended: stopped by a signal, or frozen with its container.

A thread may also be late because it waited for the GIL. But then another thread held the GIL and
used processor time. A suspended process uses none.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# A beat that is later than this is not late by mere chance. The value is our choice.
LATE_S = 2.0
# If the process used processor time for more than this share of the silence, it was at work.
WORKED_SHARE = 0.5


class Heartbeat:
    """Detects suspensions: a thread calls `beat` at an interval, and a very late call shows one.

    Args:
        interval_s: Time between two beats.
        now: The clock, in seconds.
        process_s: Processor time of this process, in seconds.
        on_stop: Called when the process continues, with the time of the last beat before the stop
            and the current time.
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
        # Time of the last beat, and the processor time used until then.
        self._beat = now(), process_s()
        self._stopped_s: float | None = None

    def beat(self) -> None:
        """Notes that the thread is alive, and detects a stop since the last beat."""
        now_s = self._now()
        if self._stands_still(now_s):
            self._stopped_s = now_s
            self._on_stop(self._beat[0], now_s)
        self._beat = now_s, self._process_s()

    def stopped_since(self, moment_s: float) -> bool:
        """Whether the process was suspended at any time since `moment_s` on the clock."""
        if self._stands_still(self._now()):
            return True  # the process has just continued, and has not beaten yet
        return self._stopped_s is not None and self._stopped_s >= moment_s

    def _stands_still(self, now_s: float) -> bool:
        beaten_s, worked_s = self._beat
        silent_s = now_s - beaten_s
        if silent_s <= self._longest_s:
            return False
        return self._process_s() - worked_s < WORKED_SHARE * silent_s
