"""Use of the host's processors, memory and disks, read through psutil."""

from __future__ import annotations

import functools
import os
import time
from typing import Any

from keras_gpukit.records.machine import HostSample
from keras_gpukit.sensors.memory_limit import read_limit

SHORTEST_S = 0.1
"""Shortest time over which a share of processor time is reported. Linux counts processor time in
hundredths of a second, so with fewer than ten of them the share would be off by a tenth or more."""
# Reading the disks' counters takes a quarter of a millisecond, which would delay short runs.
DISKS_EVERY_S = 0.5


class HostSensor:
    """Reads the host. Rates cover the time since the reading before.

    Disks are read at most every 0.5 s. Their rate is None in readings in between, and for the first
    time.
    """

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._cores = psutil.cpu_count() or 1
        now_s = time.perf_counter()
        # Each figure of the latest reading together with its time.
        self._disks: tuple[float, int | None] = (now_s, None)
        # This clock counts nanoseconds; psutil reads hundredths of a second from a file.
        self._process = now_s, time.process_time()
        self._cpu_s = self._cpu_times()

    def read(self) -> HostSample:
        """Reads the host once."""
        now_s = time.perf_counter()
        process_cpu_percent = self._process_cpu_percent(now_s)
        memory = self._psutil.virtual_memory()
        limit_bytes, limit_used_bytes = read_limit()
        return HostSample(
            cpu_percent=self._cpu_percent(),
            process_cpu_percent=process_cpu_percent,
            memory_bytes=process_bytes(),
            memory_available_bytes=memory.available,
            memory_total_bytes=memory.total,
            disk_read_bytes_per_s=self._disk_rate(now_s),
            memory_limit_bytes=limit_bytes,
            memory_limit_used_bytes=limit_used_bytes,
        )

    def _cpu_percent(self) -> float | None:
        # psutil.cpu_percent() covers the time since the same thread's previous call, so the first
        # call on each thread would return a false 0.
        (busy_before, all_before), (busy, total) = self._cpu_s, self._cpu_times()
        self._cpu_s = busy, total
        return 100 * (busy - busy_before) / (total - all_before) if total > all_before else None

    def _process_cpu_percent(self, now_s: float) -> float:
        (before_s, spent_before_s), spent_s = self._process, time.process_time()
        self._process = now_s, spent_s
        return 100 * (spent_s - spent_before_s) / ((now_s - before_s) * self._cores)

    def _cpu_times(self) -> tuple[float, float]:
        """Returns the busy time and the total time of all cores since the machine started."""
        times = self._psutil.cpu_times()
        # Linux counts time spent on guests as user time too.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return total - times.idle - getattr(times, "iowait", 0.0), total

    def _disk_rate(self, now_s: float) -> float | None:
        since_s, before = self._disks
        if now_s - since_s < DISKS_EVERY_S:
            return None
        read_bytes = self._disk_read_bytes()
        self._disks = now_s, read_bytes
        if before is None or read_bytes is None:
            return None
        return (read_bytes - before) / (now_s - since_s)

    def _disk_read_bytes(self) -> int | None:
        # Some containers show no disks, or hide even the file that lists them.
        try:
            counters = self._psutil.disk_io_counters()
        except (OSError, NotImplementedError, self._psutil.Error):
            return None
        return counters.read_bytes if counters else None


def process_bytes() -> int:
    """Returns the resident memory of this process, in bytes."""
    return int(_process(os.getpid()).memory_info().rss)


@functools.lru_cache(maxsize=1)
def _process(pid: int) -> Any:
    """Returns the process, cached by PID: psutil reads its start time once, and again in a fork."""
    import psutil

    return psutil.Process(pid)
