"""How busy the cores are, and how late a Python thread runs, during a stretch of time."""

from __future__ import annotations

import os
import statistics
import threading
import time
from types import TracebackType

# Short against the 5 ms after which the interpreter's lock changes hands.
NAP_S = 2e-3
QUIET_SHARE = 0.1
LOOK_EVERY_S = 0.02


class HostLoad:
    """Watches the host while it is entered.

    Attributes:
        cores_busy: Share of the usable cores that worked, by this process and its children or by
            all processes, whichever is more; None before the end.
        interpreter_delay_s: The median delay of a thread that naps, in seconds.
    """

    def __init__(self) -> None:
        self.cores_busy: float | None = None
        self.interpreter_delay_s: float | None = None
        self._delays_s: list[float] = []
        self._over = threading.Event()
        self._napper = threading.Thread(target=self._nap, name="gpukit-napper", daemon=True)

    def __enter__(self) -> HostLoad:
        self._napper.start()
        self._began_s = time.perf_counter()
        self._cpu_s = own_cpu_s()
        self._system_s = _system_cpu_s()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        wall_s = time.perf_counter() - self._began_s
        own_share = (own_cpu_s() - self._cpu_s) / (wall_s * usable_cores())
        busy_s, total_s = (
            now - then for now, then in zip(_system_cpu_s(), self._system_s, strict=True)
        )
        self.cores_busy = min(max(own_share, busy_s / total_s if total_s > 0 else 0.0), 1.0)
        self._over.set()
        self._napper.join()
        if self._delays_s:
            self.interpreter_delay_s = statistics.median(self._delays_s)

    def _nap(self) -> None:
        while not self._over.is_set():
            began = time.perf_counter()
            time.sleep(NAP_S)
            self._delays_s.append(time.perf_counter() - began - NAP_S)


def wait_until_quiet(limit_s: float) -> None:
    """Waits until this process has nothing left to do, such as filling its buffers.

    Args:
        limit_s: When to go on all the same.
    """
    end = time.perf_counter() + limit_s
    while time.perf_counter() < end:
        before_s, began = own_cpu_s(), time.perf_counter()
        time.sleep(LOOK_EVERY_S)
        if own_cpu_s() - before_s < QUIET_SHARE * (time.perf_counter() - began):
            return


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def own_cpu_s() -> float:
    """Processor time that this process and its living children took so far, in seconds."""
    import psutil

    spent_s = time.process_time()
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile
        spent_s += times.user + times.system
    return spent_s


def _system_cpu_s() -> tuple[float, float]:
    """Time of all cores since the machine started: busy, and in all."""
    import psutil

    times = psutil.cpu_times()
    # Linux counts time spent on guests as user time too.
    total_s = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total_s - times.idle - getattr(times, "iowait", 0.0), total_s
