"""Use of the host's processors, memory and disks, read through psutil, and limits of its memory.

Containers and batch jobs set a limit with Linux's control groups; `ulimit -v` limits the process's
address space.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import time
from pathlib import Path
from typing import Any

from keras_gpukit.records.machine import HostSample
from keras_gpukit.records.report import DeviceBenchmark
from keras_gpukit.records.run import Ceilings

SHORTEST_S = 0.1
"""Shortest time over which a share of processor time is reported. Linux counts processor time in
hundredths of a second, so with fewer than ten of them the share would be off by a tenth or more."""
# Reading the disks' counters takes a quarter of a millisecond, which would delay short runs.
DISKS_EVERY_S = 0.5
_UNLIMITED_BYTES = 2**60
_ROOT = Path("/sys/fs/cgroup")
# Files of control groups, for version 2 and version 1: the limit, the memory in use, and the
# statistics, with the entry for the part in use that caches files.
_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


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
        self._cpu_s = busy_and_total_s()
        self._usage: tuple[float, ...] | None = None

    def read(self, *, in_steps: bool = False) -> HostSample:
        """Reads the host once.

        Page faults and the kernel's time count if steps ran at this reading and the one before.
        """
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
            **self._usage_rates(now_s, in_steps),
        )

    def _usage_rates(self, now_s: float, in_steps: bool) -> dict[str, Any]:
        before, self._usage = self._usage, (now_s, *_own_usage()) if in_steps else None
        if before is None or self._usage is None:
            return {}
        passed_s, *used = (now - then for then, now in zip(before, self._usage, strict=True))
        names = ("user_cores", "kernel_cores", "page_faults_per_s")
        return {name: value / passed_s for name, value in zip(names, used, strict=False)}

    def _cpu_percent(self) -> float | None:
        # psutil.cpu_percent() covers the time since the same thread's previous call, so the first
        # call on each thread would return a false 0.
        (busy_before, all_before), (busy, total) = self._cpu_s, busy_and_total_s()
        self._cpu_s = busy, total
        return 100 * (busy - busy_before) / (total - all_before) if total > all_before else None

    def _process_cpu_percent(self, now_s: float) -> float:
        (before_s, spent_before_s), spent_s = self._process, time.process_time()
        self._process = now_s, spent_s
        return 100 * (spent_s - spent_before_s) / ((now_s - before_s) * self._cores)

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


def busy_and_total_s() -> tuple[float, float]:
    """Returns the busy time and the total time of all cores since the machine started."""
    import psutil

    times = psutil.cpu_times()
    # Linux counts time spent on guests as user time too.
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - times.idle - getattr(times, "iowait", 0.0), total


def _own_usage() -> tuple[float, ...]:
    """Returns the seconds in user code and in the kernel, and page faults; empty if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return ()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime, used.ru_minflt


def process_bytes() -> int:
    """Returns the resident memory of this process, in bytes."""
    return int(_process(os.getpid()).memory_info().rss)


@functools.lru_cache(maxsize=1)
def _process(pid: int) -> Any:
    """Returns the process, cached by PID: psutil reads its start time once, and again in a fork."""
    import psutil

    return psutil.Process(pid)


def left_bytes(root: Path = _ROOT) -> int:
    """Returns the memory that the machine has available, or less if a limit leaves less."""
    import psutil

    left = [int(psutil.virtual_memory().available)]
    limit_bytes, used_bytes = read_limit(root)
    if limit_bytes is not None and used_bytes is not None:
        left.append(limit_bytes - used_bytes)
    address_space_bytes = _address_space_limit()
    if address_space_bytes is not None:
        left.append(address_space_bytes - int(psutil.Process().memory_info().vms))
    return max(min(left), 0)


def read_limit(root: Path = _ROOT) -> tuple[int | None, int | None]:
    """Returns the limit and the memory in use, in bytes; None for both without a limit.

    A container sees its own control group at the root. The group of a job, deeper in the tree, is
    not searched for. Inactive caches of files do not count as in use.
    """
    for limit, used, statistics, cached in _FILES:
        limit_bytes = _number(root / limit)
        if limit_bytes is None or limit_bytes >= _UNLIMITED_BYTES:
            continue
        if (used_bytes := _number(root / used)) is not None:
            return limit_bytes, max(used_bytes - _entry(root / statistics, cached), 0)
    return None, None


def _address_space_limit() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # "max" if there is no limit
        return None


def _entry(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def results_file(device: str) -> Path:
    """Returns the file with the results of a device, such as "bench-nvidia-a100-sxm4-40gb.json"."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return cache / "keras_gpukit" / f"bench-{slug}.json"


def measured_ceilings(device: str) -> Ceilings | None:
    """Returns the ceilings of a device; None if `keras-gpukit bench` has not measured them."""
    import msgspec

    try:
        content = results_file(device).read_bytes()
        return msgspec.json.decode(content, type=DeviceBenchmark).ceilings
    except (OSError, msgspec.DecodeError):
        return None


def processor_name() -> str:
    """Returns the processor's product name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
