"""How many cores the threads keep busy that were started since a run began.

tf.data and Keras start threads for each pass over a dataset, while TensorFlow computes the steps on
threads that it made before. So what new threads do is mostly the making of batches. It is more than
what the stages take by the clock says, which counts a stage that sleeps as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

# Ends of epochs come between readings: a run with fewer pairs of readings says little.
MINIMUM_S = 2.0


class NewThreadsSensor:
    """Adds up processor time from reading to reading, as long as the run is at its steps.

    Threads that end between two readings count too: theirs is what the process used beyond the
    threads that were there at first.

    Args:
        threads: Returns the processor time of each of this process's threads by id, in seconds.
        process_s: Processor time of this process, in seconds.
        now: The clock, in seconds.
    """

    def __init__(
        self,
        *,
        threads: Callable[[], Mapping[int, float]] | None = None,
        process_s: Callable[[], float] = time.process_time,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._threads = threads or _own_threads
        self._process_s = process_s
        self._now = now
        # What they used until the first reading is in all readings alike.
        self._old_s = dict.fromkeys(_own_ids() if threads is None else threads(), 0.0)
        self._last: tuple[float, float] | None = None
        self._spent_s = self._passed_s = 0.0

    def read(self, *, in_steps: bool) -> None:
        """Reads once, about every second.

        Args:
            in_steps: Whether the run is at its steps. Between two readings that both are, time
                counts.
        """
        if not in_steps:
            self._last = None
            return
        now_s, process_s, threads = self._now(), self._process_s(), self._threads()
        self._old_s.update((each, threads[each]) for each in self._old_s if each in threads)
        new_s = process_s - sum(self._old_s.values())
        if self._last is not None:
            last_s, last_new_s = self._last
            self._passed_s += now_s - last_s
            self._spent_s += max(new_s - last_new_s, 0.0)
        self._last = now_s, new_s

    def cores(self) -> float | None:
        """Returns how many cores the new threads kept busy on average; None after a short time."""
        return self._spent_s / self._passed_s if self._passed_s >= MINIMUM_S else None


def _own_ids() -> list[int]:
    try:  # a twentieth of the time that reading all of them takes
        return [int(each) for each in os.listdir("/proc/self/task")]
    except OSError:
        return list(_own_threads())


def _own_threads() -> Mapping[int, float]:
    import psutil

    times = psutil.Process().threads()
    return {each.id: each.user_time + each.system_time for each in times}
