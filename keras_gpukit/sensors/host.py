"""The host's processors, memory and disks, through psutil."""

from __future__ import annotations

import time

from keras_gpukit.records.machine import HostSample, HostUtilization
from keras_gpukit.sensors.memory_limit import read_limit
from keras_gpukit.sensors.neighbours import NeighbourSensor
from keras_gpukit.sensors.statistics import Gauges

# Reading the disks' counters takes a quarter of a millisecond, which short runs would wait for.
DISKS_EVERY_S = 0.5


class HostSensor:
    """Reads the host; rates are since the reading before, that of disks since the second one."""

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._process = psutil.Process()
        self._cores = psutil.cpu_count() or 1
        self._read_bytes: int | None = None
        self._read_at = time.perf_counter()
        self._cpu_s = self._cpu_times()
        # psutil's percentage is since the call before: the first one only starts the clock.
        self._process.cpu_percent()

    def read(self) -> HostSample:
        """Reads once."""
        memory = self._psutil.virtual_memory()
        limit_bytes, limit_used_bytes = read_limit()
        return HostSample(
            cpu_percent=self._cpu_percent(),
            process_cpu_percent=self._process.cpu_percent() / self._cores,
            memory_bytes=self._process.memory_info().rss,
            memory_available_bytes=memory.available,
            memory_total_bytes=memory.total,
            disk_read_bytes_per_s=self._disk_rate(),
            memory_limit_bytes=limit_bytes,
            memory_limit_used_bytes=limit_used_bytes,
        )

    def _cpu_percent(self) -> float | None:
        # psutil.cpu_percent() is since the calling thread's own call before, so the first one on
        # each thread would give a false 0.
        (busy_before, all_before), (busy, total) = self._cpu_s, self._cpu_times()
        self._cpu_s = busy, total
        return 100 * (busy - busy_before) / (total - all_before) if total > all_before else None

    def _cpu_times(self) -> tuple[float, float]:
        """Time of all cores since the machine started: busy, and in all."""
        times = self._psutil.cpu_times()
        # Linux counts time spent on guests as user time too.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return total - times.idle - getattr(times, "iowait", 0.0), total

    def _disk_rate(self) -> float | None:
        before, then, now = self._read_bytes, self._read_at, time.perf_counter()
        if now - then < DISKS_EVERY_S:
            return None
        self._read_bytes, self._read_at = self._disk_read_bytes(), now
        if before is None or self._read_bytes is None:
            return None
        return (self._read_bytes - before) / (now - then)

    def _disk_read_bytes(self) -> int | None:
        # Some containers show no disks, or hide even the file that lists them.
        try:
            counters = self._psutil.disk_io_counters()
        except (OSError, NotImplementedError, self._psutil.Error):
            return None
        return counters.read_bytes if counters else None


def summarize_host(
    gauges: Gauges, neighbours: NeighbourSensor | None = None
) -> HostUtilization | None:
    """Sums readings up; None when there are none."""
    if not gauges.readings:
        return None
    return HostUtilization(
        cpu_percent=gauges.mean("cpu_percent"),
        process_cpu_percent=gauges.mean("process_cpu_percent"),
        memory_max_bytes=gauges.highest("memory_bytes"),
        memory_available_min_bytes=gauges.lowest("memory_available_bytes"),
        memory_total_bytes=gauges.last("memory_total_bytes"),
        disk_read_bytes_per_s=gauges.mean("disk_read_bytes_per_s"),
        children_cpu_percent=neighbours.children_percent() if neighbours else None,
        others=neighbours.uses() if neighbours else (),
    )
