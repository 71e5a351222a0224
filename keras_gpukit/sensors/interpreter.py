"""Measures whether threads wait for the GIL or a core."""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from keras_gpukit.records.pipeline import ContentionRecord

# A sleeping thread must take the GIL again when it wakes. If another thread waits, no thread holds
# the GIL for longer than `sys.getswitchinterval()`, except in C code.
NAPS = 3
NAP_S = 0.001


class ContentionSensor:
    """Takes short naps, and records how late it wakes and how much processor time the process used.

    Lateness that comes from waiting for a core does not count, if Linux says how long that was: on
    busy cores it would look like a wait for the GIL.

    Args:
        sleep: Sleeps for a number of seconds without the GIL.
        now: The clock, in seconds.
        process_s: Processor time of this process, in seconds.
        cores: Number of cores that this process may use; None to ask the system.
        queued: Opens a clock of how long the calling thread has waited for a core, in seconds.
        stolen_s: Time that a virtual machine's core was given to other guests, in seconds.
    """

    def __init__(
        self,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.perf_counter,
        process_s: Callable[[], float] = time.process_time,
        cores: int | None = None,
        queued: Callable[[], AbstractContextManager[Callable[[], float]]] | None = None,
        stolen_s: Callable[[], float] | None = None,
    ) -> None:
        self._sleep = sleep
        self._now = now
        self._process_s = process_s
        self._cores = cores or usable_cores()
        self._queued = queued or _queued_for_a_core
        self._stolen_s = stolen_s or _stolen_from_a_core_s
        self._began_s, self._process_began_s = now(), process_s()
        self._stolen_before_s = self._stolen_s()
        self._late_s: list[float] = []

    def read(self) -> None:
        """Takes the naps of one tick: three of one millisecond each."""
        late = []
        with self._queued() as queued_s:
            for _ in range(NAPS):
                queued_before_s, lay_down_s = queued_s(), self._now()
                self._sleep(NAP_S)
                late_s = self._now() - lay_down_s - NAP_S
                late.append(max(late_s - (queued_s() - queued_before_s), 0.0))
        # The median ignores a single nap that was late by chance.
        self._late_s.append(statistics.median(late))

    def record(
        self, *, input_cores: float | None = None, input_queued_ratio: float | None = None
    ) -> ContentionRecord:
        """Returns the contention since the sensor was made.

        Args:
            input_cores: Number of cores that the threads making batches kept busy; None if unknown.
            input_queued_ratio: See `ContentionRecord`.
        """
        wall_s = self._now() - self._began_s
        process_s = self._process_s() - self._process_began_s
        # What other guests got, no thread of this process could have used.
        provided_s = self._cores * (wall_s - (self._stolen_s() - self._stolen_before_s))
        return ContentionRecord(
            gil_wait_s=statistics.median(self._late_s) if self._late_s else None,
            cores_busy_fraction=process_s / provided_s if provided_s > 0 else None,
            input_cores_fraction=None if input_cores is None else input_cores / self._cores,
            input_queued_ratio=input_queued_ratio,
        )


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
