"""A thread that reads sensors at an interval during a run, and notices that it stood still."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from keras_gpukit.errors import Guard

Task = Callable[[], None]
# A driver that hangs must not keep `fit` from returning.
STOP_WITHIN_S = 10.0
# A beat that is later than this is not late by mere chance. The value is our choice.
LATE_S = 2.0
# If the process used processor time for more than this share of the silence, it was at work.
WORKED_SHARE = 0.5


class SamplingThread:
    """Calls each task at every tick; a task that raises is dropped with one warning."""

    def __init__(self, interval_s: float = 1.0) -> None:
        self.interval_s = interval_s
        self.cpu_s = 0.0
        """Processor time of the recurring work, in seconds; updated after each tick."""
        self.once_s = 0.0
        """Part of the processor time that is not in `cpu_s`: work that is done once."""
        self._tasks: dict[int, tuple[str, Task]] = {}
        self._added = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpukit-sampler", daemon=True)

    def add_task(self, reads: str, task: Task) -> int:
        """Adds a task and the words for what it reads; returns its number, for `call`.

        It is called from the next tick on.
        """
        self._added += 1
        self._tasks[self._added] = reads, task
        return self._added

    def start(self) -> None:
        """Starts ticking; the first tick comes after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the current tick; may be called repeatedly, or before `start`."""
        self._stopping.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(STOP_WITHIN_S)

    def release(self) -> None:
        """Drops the tasks, and with them the objects they refer to, such as the data of a run."""
        self._tasks = {}

    def tick(self) -> None:
        """Calls every task once, on the calling thread."""
        for number in tuple(self._tasks):
            self.call(number)

    def call(self, number: int) -> None:
        """Calls one task once, on the calling thread, unless it was dropped."""
        found = self._tasks.get(number)
        if found is None:
            return
        reads, task = found
        with Guard(f"Reading {reads}", "It is not read again in this run.") as guard:
            task()
        if guard.failed_because is not None:
            self._tasks.pop(number, None)

    def _run(self) -> None:
        while not self._stopping.wait(self.interval_s):
            self.tick()
            self.cpu_s = time.thread_time() - self.once_s


class Heartbeat:
    """Detects suspensions: a thread calls `beat` at an interval, and a very late call shows one.

    `on_stop` is then called with the time of the last beat before the stop, and the current time.
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
