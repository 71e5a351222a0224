"""Samples a run while it goes on: a thread once a second, and another one stacks more often."""

from __future__ import annotations

import _thread
import math
import os
import threading
import time
from collections.abc import Callable

from keras_gpukit.errors import Guard
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.records.machine import SAMPLE_EVERY_S
from keras_gpukit.records.script import StackPart, StackTimes
from keras_gpukit.sensors.sampling_thread import Heartbeat, SamplingThread
from keras_gpukit.sensors.stack_parts import CodeWatch
from keras_gpukit.sensors.stacks import StackSampler

EVERY_S = 0.15
"""Mean time between two samples; our choice. A sample takes tens of microseconds."""
MOST_S = 2.0
"""Most seconds that ending waits for a sample; our choice."""
_GOLDEN = 0.618034
GROWTH = 1.5
"""Factor by which a run's time grows from one scheduled moment to the next, so they become rare."""


class Schedule:
    """Says when to repeat something: after ever longer pauses from now on, unless limited.

    Args:
        first_s: Seconds from now after which it is due first.
        least_s: Shortest pause, in seconds.
        most_s: Longest pause, in seconds.
    """

    def __init__(
        self, first_s: float = 0.0, least_s: float = 0.0, most_s: float = math.inf
    ) -> None:
        self._began_s = time.perf_counter()
        self._due_s = self._began_s + first_s
        self._least_s, self._most_s = least_s, most_s

    def is_due(self) -> bool:
        """Whether it is due now; it is then due again after the next pause."""
        now_s = time.perf_counter()
        if now_s < self._due_s:
            return False
        pause_s = (GROWTH - 1) * (now_s - self._began_s)
        self._due_s = now_s + min(max(pause_s, self._least_s), self._most_s)
        return True


class ScriptStacks:
    """Has a sampler read the stacks about seven times a second, while anyone needs it.

    The times between two samples differ, so that they do not keep pace with the steps. The thread
    is none of `threading`: a script that waits until its own threads have ended must not wait for
    it.
    """

    def __init__(self, sampler: StackSampler) -> None:
        self.sampler = sampler
        self._users = 0
        self._lock = threading.RLock()  # an interrupt may leave it locked
        self._stop: _thread.LockType | None = None
        self._ended = _thread.allocate_lock()
        if hasattr(os, "register_at_fork"):
            # Python warns of a fork with threads, and a child has only the one that forked.
            os.register_at_fork(
                before=self._end, after_in_parent=self._begin, after_in_child=self._begin_in_child
            )

    def acquire(self) -> StackSampler:
        """Starts to sample, unless that has started; returns the sampler."""
        with self._lock:
            self._users += 1
            self._begin()
        return self.sampler

    def release(self) -> None:
        """Ends the samples, if no one else needs them."""
        with self._lock:
            self._users = max(self._users - 1, 0)
            if not self._users:
                self._end()

    def _begin(self) -> None:
        if not self._users or self._stop is not None:
            return
        self._stop, self._ended = _thread.allocate_lock(), _thread.allocate_lock()
        self._stop.acquire()
        self._ended.acquire()
        self.sampler.resume()
        _thread.start_new_thread(self._run, (self._stop, self._ended))

    def _begin_in_child(self) -> None:
        self._lock = threading.RLock()  # another thread may have held it
        self._begin()

    def _end(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop.release()
            self._ended.acquire(timeout=MOST_S)

    def _run(self, stop: _thread.LockType, ended: _thread.LockType) -> None:
        shift, guard = 0.0, Guard("Sampling stacks", "Times by line are incomplete.")
        try:
            while not stop.acquire(timeout=EVERY_S * (0.5 + shift)):
                shift = (shift + _GOLDEN) % 1
                with guard:
                    self.sampler.poll()
                if guard.failed_because is not None:
                    return
        finally:
            ended.release()


STACKS = ScriptStacks(StackSampler(is_of_the_script, place))


class Sampling(SamplingThread):
    """Samples what is asked for while a run goes on, with `fit` or with a loop of its own.

    Args:
        on_suspended: Called with the moments on the clock between which the process was suspended.

    Attributes:
        suspended_since: Returns whether the process was suspended since a moment on the clock.
    """

    every_second = SamplingThread.add_task
    read_now = SamplingThread.call

    def __init__(
        self, on_suspended: Callable[[float, float], None] = lambda began_s, ended_s: None
    ) -> None:
        super().__init__(SAMPLE_EVERY_S)
        self._stacks: StackSampler | None = None
        self._code_watches: list[CodeWatch] = []
        self._began_s = time.perf_counter()
        heartbeat = Heartbeat(SAMPLE_EVERY_S, on_stop=on_suspended)
        self.suspended_since = heartbeat.stopped_since
        self.every_second("whether the process was suspended", heartbeat.beat)

    def start(self, *, stacks: bool = False) -> None:
        """Starts the thread and, if they are wanted, to sample stacks until `close`."""
        if stacks:
            self._stacks = STACKS.acquire()
            for watch in self._code_watches:
                self._stacks.watch(watch)
        super().start()

    def watch_code(self, watch: CodeWatch) -> None:
        """Lets a watch see all stacks that are sampled until `close`."""
        self._code_watches.append(watch)
        if self._stacks is not None:
            self._stacks.watch(watch)

    def line_times(self, thread: int) -> StackTimes | None:
        """Returns the lines of Python that a call spent its time on; None before its start."""
        parts: tuple[StackPart, ...] = ("call", "step", "callback", "python")
        if self._stacks is None:
            return None
        return self._stacks.times(self._began_s, parts=parts, thread=thread)

    def close(self) -> None:
        """Ends the thread and the stacks, and forgets all actions with what they refer to."""
        self.stop()
        stacks, self._stacks = self._stacks, None
        if stacks is not None:
            for watch in self._code_watches:
                stacks.unwatch(watch)
            STACKS.release()
        self._code_watches.clear()
        self.release()
