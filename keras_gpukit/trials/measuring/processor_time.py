"""Measures the processor time that was used, and waits until this process is idle."""

from __future__ import annotations

import time

from keras_gpukit.sensors.interpreter import usable_cores

# Share of one core. Below it, a process runs nothing but periodic checks.
QUIET_SHARE = 0.1
LOOK_EVERY_S = 0.02


def busy_cpu_s() -> float:
    """Returns the seconds for which the cores available to this process were busy.

    If all cores are available, the work of other processes counts too. If not, as in some
    containers, only this process and its children count.
    """
    import psutil

    if usable_cores() != psutil.cpu_count():
        return own_cpu_s()
    times = psutil.cpu_times()
    # Linux counts time spent on guests as user time too.
    aside = ("idle", "iowait", "guest", "guest_nice")
    return float(sum(times) - sum(getattr(times, name, 0.0) for name in aside))


def own_cpu_s() -> float:
    """Returns the processor seconds that this process and its running descendants have used."""
    import psutil

    spent_s = time.process_time()
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile
        spent_s += times.user + times.system
    return spent_s


def wait_until_quiet(limit_s: float) -> None:
    """Waits until this process is idle, for example because its buffers are full."""
    end = time.perf_counter() + limit_s
    while time.perf_counter() < end:
        before_s = time.process_time()
        time.sleep(LOOK_EVERY_S)
        if time.process_time() - before_s < QUIET_SHARE * LOOK_EVERY_S:
            return
