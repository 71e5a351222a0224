"""Which process writes a record, and whether it still lives. Known on Linux only."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from keras_gpukit.records.run import ProcessIdentity

_BOOT = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/pid"


def own_identity() -> ProcessIdentity | None:
    """Returns the identity of this process; None where the system does not tell enough."""
    place, state = _place(), _state_and_start(os.getpid())
    if place is None or state is None:
        return None
    return ProcessIdentity(os.getpid(), state[1], place)


def has_ended(process: ProcessIdentity | None) -> bool:
    """Returns whether a process is known to have ended.

    Args:
        process: None where it is not known which one wrote the record.

    Returns:
        False also for a process on another host, before another start of this one, or in another
        container: its number says nothing here.
    """
    if process is None or process.pid <= 0 or process.place != _place():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it is another user's
        pass
    except (OSError, OverflowError):
        return False
    state = _state_and_start(process.pid)
    return state is not None and (state[0] in ("Z", "X") or state[1] != process.started)


def _place() -> str | None:
    """Within which a process's number is its own: a host, its start and its namespace."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None  # /proc shows the numbers of another namespace
        boot = Path(_BOOT).read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink(_NAMESPACE)}"
    except OSError:
        return None


def _state_and_start(pid: int) -> tuple[str, int] | None:
    """The state, as "R", and the start in ticks since the system's; None if it is hidden."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
        # The name before it may hold spaces and brackets.
        fields = line[line.rindex(b")") + 1 :].split()
        return fields[0].decode(), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
