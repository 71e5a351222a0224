"""Processor time of this process and its children."""

from __future__ import annotations

import time

# Of one core; below it, nothing is left to do but to look now and then.
QUIET_SHARE = 0.1
LOOK_EVERY_S = 0.02


def own_cpu_s() -> float:
    """Returns the time that this process and its living children took so far, in seconds."""
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
