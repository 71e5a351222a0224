"""GPU memory of this process, separated from that of other processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

# Number of the machine's own PID namespace, the first one, in Linux since version 3.8:
# PROC_PID_INIT_INO in include/linux/proc_ns.h.
_FIRST_NAMESPACE = "pid:[4026531836]"


@dataclass(frozen=True)
class ProcessMemory:
    """Memory of one GPU by process. An unknown figure is None, with the reason.

    Attributes:
        own_bytes: Memory of this process.
        others_bytes: Memory of all other processes together.
        others: Memory of each other process, in bytes by PID; empty if `others_bytes` is None.
        unknown_because: Why one of the figures is unknown; None if all are known.
    """

    own_bytes: int | None = None
    others_bytes: int | None = None
    others: dict[int, int] = field(default_factory=dict)
    unknown_because: str | None = None


def in_first_namespace() -> bool:
    """Whether PIDs here are the machine's, as NVML's are; this is not so in most containers."""
    if sys.platform != "linux":
        return True
    try:
        return os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:
        return False


def exists(pid: int) -> bool:
    """Whether a process with this PID is visible here."""
    return os.path.exists(f"/proc/{pid}")


def program_name(pid: int) -> str | None:
    """Returns the name of a process's program; None if it is not visible."""
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return None


def memory_by_process(processes: Iterable[Any] | None, pid: int) -> ProcessMemory:
    """Separates this process's memory from that of others.

    In a container, drivers before 535 or so list the machine's PIDs. Later drivers list the
    container's PIDs, some of them with 0 bytes.
    https://github.com/NVIDIA/nvidia-docker/issues/1483
    https://github.com/NVIDIA/open-gpu-kernel-modules/pull/614

    Args:
        processes: NVML's list of processes, each with `pid` and `usedGpuMemory`; None if NVML does
            not list them.
        pid: PID of this process.
    """
    if processes is None:
        return ProcessMemory(unknown_because="the driver does not list the GPU's processes")
    used: dict[int, int | None] = {}
    for each in processes:  # in MIG mode, a process has an entry for each instance
        before = used.get(each.pid, 0)
        more = each.usedGpuMemory
        used[each.pid] = None if before is None or more is None else before + more
    if pid not in used:
        return ProcessMemory(unknown_because=_not_listed())
    own = used.pop(pid)
    if own is None:
        return ProcessMemory(unknown_because="the driver does not report memory by process")
    if in_first_namespace():
        others = {other: held for other, held in used.items() if held is not None}
        if len(others) < len(used):
            because = "the driver does not report the memory of every other process"
            return ProcessMemory(own, unknown_because=because)
        return ProcessMemory(own, sum(others.values()), others)
    # The PID may belong to another process, outside this container.
    if own == 0 or not all(map(exists, used)):
        return ProcessMemory(unknown_because=_not_listed())
    return ProcessMemory(own, unknown_because="a container does not show processes outside of it")


def _not_listed() -> str:
    if in_first_namespace():
        return "the driver does not list this process on the GPU"
    return "the driver does not know this container's process numbers: start it with --pid=host"
