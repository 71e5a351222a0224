"""The one sampler of Python stacks in this process, and the thread that lets it look."""

from __future__ import annotations

import _thread
import os
import threading

from keras_gpukit.errors import Guard
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.sensors.stacks import StackSampler

EVERY_S = 0.15
"""Mean time between two looks; our choice. A look takes tens of microseconds."""
MOST_S = 2.0
"""Most seconds that ending waits for a look; our choice."""
_GOLDEN = 0.618034


class ScriptStacks:
    """Lets a sampler look at the stacks about seven times a second, while anyone needs it.

    The times between two looks differ, so that they do not keep pace with the steps. The thread is
    none of `threading`: a script that waits until its own threads have ended must not wait for it.
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
        """Starts to look, unless that has started; returns the sampler."""
        with self._lock:
            self._users += 1
            self._begin()
        return self.sampler

    def release(self) -> None:
        """Ends the looks, if no one else needs them."""
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
