"""Measures whether threads wait for the GIL or a core, and how busy those are that make batches."""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from keras_gpukit.records.pipeline import ContentionRecord
from keras_gpukit.sensors.compilations import Compilations, compilations

# A sleeping thread must take the GIL again when it wakes. If another thread waits, no thread holds
# the GIL for longer than `sys.getswitchinterval()`, except in C code.
NAPS = 3
NAP_S = 0.001
LEFT_OUT = 10
"""Number of readings of which the largest is left out; always one, of two or more. Our choice."""


class ContentionSensor:
    """Takes short naps, and records how late it wakes and how much processor time the process used.

    Lateness that comes from waiting for a core does not count, if Linux says how long that was: on
    busy cores it would look like a wait for the GIL.
    """

    def __init__(
        self,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.perf_counter,
        process_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._sleep = sleep
        self._now = now
        self._process_s = process_s
        self._cores = usable_cores()
        self._began_s, self._process_began_s = now(), process_s()
        self._stolen_before_s = _stolen_from_a_core_s()
        self._late_s: list[float] = []

    def take_naps(self) -> None:
        """Takes the naps of one tick: three of one millisecond each."""
        late = []
        with _queued_for_a_core() as queued_s:
            for _ in range(NAPS):
                queued_before_s, lay_down_s = queued_s(), self._now()
                self._sleep(NAP_S)
                late_s = self._now() - lay_down_s - NAP_S
                late.append(max(late_s - (queued_s() - queued_before_s), 0.0))
        # The median ignores a single nap that was late by chance.
        self._late_s.append(statistics.median(late))

    def contention_record(
        self, *, input_cores: float | None = None, input_queued_ratio: float | None = None
    ) -> ContentionRecord:
        """Returns the contention since the sensor was made.

        `input_cores` is the number of cores that the threads making batches kept busy.
        """
        wall_s = self._now() - self._began_s
        process_s = self._process_s() - self._process_began_s
        # What other guests got, no thread of this process could have used.
        provided_s = self._cores * (wall_s - (_stolen_from_a_core_s() - self._stolen_before_s))
        return ContentionRecord(
            gil_wait_s=_mean_but_largest(self._late_s),
            cores_busy_fraction=process_s / provided_s if provided_s > 0 else None,
            input_cores_fraction=None if input_cores is None else input_cores / self._cores,
            input_queued_ratio=input_queued_ratio,
        )


def _mean_but_largest(late_s: list[float]) -> float | None:
    """Returns the mean without the largest; None without any.

    Code that holds the GIL for a third of the time makes others wait in a third of the readings,
    which a median would leave out. The largest may come of something that happens once.
    """
    kept_s = sorted(late_s)[: -max(len(late_s) // LEFT_OUT, 1)] or late_s
    return statistics.fmean(kept_s) if kept_s else None


def usable_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stolen_from_a_core_s() -> float:
    """Returns the mean of the machine's cores since it started; 0 where no system counts it."""
    import psutil

    stolen_s: float = getattr(psutil.cpu_times(), "steal", 0.0)
    return stolen_s / (psutil.cpu_count() or 1)


@contextmanager
def _queued_for_a_core() -> Iterator[Callable[[], float]]:
    """Yields a clock of how long this thread has waited for a core; it stands still if unknown."""
    try:
        account = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:  # not Linux, or a kernel without this account
        yield lambda: 0.0
        return
    # Calls through `PyDLL` keep the GIL: a reading that released it would have to wait for it.
    library, text = ctypes.PyDLL(None), ctypes.create_string_buffer(64)

    def queued_s() -> float:
        library.pread(account, text, len(text) - 1, ctypes.c_long(0))
        figures = text.value.split()
        return int(figures[1]) * 1e-9 if len(figures) > 1 else 0.0

    try:
        yield queued_s
    finally:
        os.close(account)


# Readings around an epoch's end do not count, and a run with less counted time says little.
MINIMUM_S = 2.0
_OF_XLA = "tf_XLA"


class ThreadTimes(NamedTuple):
    """Seconds in which a thread computed, and was ready to but had no core; None if unknown."""

    computed_s: float
    queued_s: float | None = None


class NewThreadsSensor:
    """Adds up the processor time of new threads from reading to reading, while steps run.

    Threads that end between two readings count too: the time of new threads is the process's time
    minus the time of the threads that existed at first.

    tf.data and Keras start threads for each pass over a dataset, while TensorFlow computes the
    steps on threads that it started before. So the work of new threads is mostly making batches.
    Their processor time says more than the stages' elapsed time, which also counts a stage that
    sleeps.

    XLA starts threads too. In TensorFlow 2.21, those that run compiled steps are recognized by
    their name, "tf_XLAEigen". Those that compile have no name of their own, so time in which XLA
    compiled does not count.
    """

    def __init__(
        self,
        *,
        threads: Callable[[], Mapping[int, ThreadTimes]] | None = None,
        process_s: Callable[[], float] = time.process_time,
        now: Callable[[], float] = time.perf_counter,
        name: Callable[[int], str] | None = None,
        compiled: Callable[[], Compilations | None] = compilations,
    ) -> None:
        self._threads = threads or _own_threads
        self._name = name or _name
        self._process_s = process_s
        self._now = now
        self._compiled = compiled
        # The time they used before the first reading cancels out, since all readings include it.
        self._old_s = dict.fromkeys(threads() if threads else _listed() or _own_threads(), 0.0)
        self._new: dict[int, ThreadTimes] = {}  # the latest times of those whose name was read
        self._last: tuple[float, float, Compilations | None] | None = None
        # Processor time of new threads, and the time in which they used it.
        self._counted: tuple[float, float] = (0.0, 0.0)

    def read_times(self, *, in_steps: bool) -> None:
        """Takes one reading; called about once per second.

        The time between two readings counts if steps ran at both, and XLA compiled nothing.
        """
        if not in_steps:
            self._last = None
            return
        now_s, process_s, threads = self._now(), self._process_s(), self._threads()
        for thread in threads.keys() - self._old_s.keys() - self._new.keys():
            if self._name(thread).startswith(_OF_XLA):
                self._old_s[thread] = 0.0
        for thread, times in threads.items():
            if thread in self._old_s:
                self._old_s[thread] = times.computed_s
            else:
                self._new[thread] = times
        new_s = process_s - sum(self._old_s.values())
        last, self._last = self._last, (now_s, new_s, self._compiled())
        if last is not None and last[2] == self._last[2]:
            spent_s, passed_s = self._counted
            self._counted = spent_s + max(new_s - last[1], 0.0), passed_s + now_s - last[0]

    def cores(self) -> float | None:
        """Returns the mean number of cores that new threads kept busy; None after less than 2 s."""
        spent_s, passed_s = self._counted
        return spent_s / passed_s if passed_s >= MINIMUM_S else None

    def queued_ratio(self) -> float | None:
        """Returns how long new threads waited for a core, over their processor time.

        Only threads that were seen count, each until it was last seen. Returns None if unknown.
        """
        times = self._new.values()
        queued_s = [thread.queued_s for thread in times if thread.queued_s is not None]
        computed_s = sum(thread.computed_s for thread in times)
        return sum(queued_s) / computed_s if computed_s and len(queued_s) == len(times) else None


def _listed() -> list[int]:
    """Returns the ids of this process's threads; empty where Linux does not list them."""
    try:
        return [int(name) for name in os.listdir("/proc/self/task")]
    except OSError:
        return []


def _own_threads() -> Mapping[int, ThreadTimes]:
    found = {}
    for thread_id in _listed():
        try:  # Linux counts nanoseconds here, and this takes less time than what psutil reads
            with open(f"/proc/self/task/{thread_id}/schedstat", "rb", buffering=0) as account:
                computed, queued, _ = account.read().split()
            found[thread_id] = ThreadTimes(int(computed) * 1e-9, int(queued) * 1e-9)
        except (OSError, ValueError):  # it has ended, or this kernel does not count
            continue
    if any(thread.computed_s for thread in found.values()):  # zeros if the kernel does not count
        return found
    import psutil

    times = psutil.Process().threads()
    return {thread.id: ThreadTimes(thread.user_time + thread.system_time) for thread in times}


def _name(thread: int) -> str:
    try:
        return Path(f"/proc/self/task/{thread}/comm").read_text()
    except OSError:  # it has ended, or this is not Linux
        return ""
