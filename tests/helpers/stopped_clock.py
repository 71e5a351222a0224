"""A clock that stands still but for what a test adds to it, in place of a module's `time`."""

from __future__ import annotations


class StoppedClock:
    """Has the functions of `time` that measure.

    Attributes:
        now_s: Seconds since it was made.
        spent_s: Those of them in which this thread computed.
    """

    UNIX_S = 1.7e9

    def __init__(self) -> None:
        self.now_s = self.spent_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s

    def thread_time(self) -> float:
        return self.spent_s

    def time(self) -> float:
        return self.UNIX_S + self.now_s

    def takes(self, seconds: float):
        """A function that takes so long."""

        def hook(*arguments, **options):
            self.now_s += seconds

        return hook

    @classmethod
    def of(cls, monkeypatch, module) -> StoppedClock:
        """Has a module read a stopped clock, and returns it."""
        clock = cls()
        monkeypatch.setattr(module, "time", clock)
        return clock
