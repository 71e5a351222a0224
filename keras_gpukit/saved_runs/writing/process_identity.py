"""Identifies the process that writes a record, and checks whether it has ended; Linux only."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from keras_gpukit.records.run import ProcessIdentity

_BOOT = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/pid"


def own_identity() -> ProcessIdentity | None:
    """Returns the identity of this process; None if the system does not provide it."""
    place, state = _place(), _state_and_start(os.getpid())
    if place is None or state is None:
        return None
    return ProcessIdentity(os.getpid(), state[1], place)


def has_ended(process: ProcessIdentity | None) -> bool | None:
    """Returns whether a process has ended.

    None is unknown, as for a process on another host, from before this host was rebooted, or in
    another container: its process id means nothing here.
    """
    if process is None or process.pid <= 0 or process.place != _place():
        return None
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # the process belongs to another user
        pass
    except (OSError, OverflowError):
        return None
    state = _state_and_start(process.pid)
    return None if state is None else state[0] in ("Z", "X") or state[1] != process.started


def _place() -> str | None:
    """Returns where process ids are unique: host, boot and namespace; None if unknown."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None  # /proc shows the process ids of another namespace
        boot = Path(_BOOT).read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink(_NAMESPACE)}"
    except OSError:
        return None


def _state_and_start(pid: int) -> tuple[str, int] | None:
    """Returns the state, such as "R", and the start in ticks since boot; None if unknown."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
        # The process name before these fields may contain spaces and parentheses.
        fields = line[line.rindex(b")") + 1 :].split()
        return fields[0].decode(), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
