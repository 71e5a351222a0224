"""The parent of one worker, which leaves no process behind when the launcher ends or dies.

    python -I -S supervisor.py GRACE_S CPUS COMMAND …

The supervisor is a separate program that needs only Python's standard library, so it starts within
20 ms. Its standard input is the *lifeline*, a pipe from the launcher. Once the launcher asks for
it there, or has ended, the worker and its descendants get SIGTERM, and after the grace period
SIGKILL. Descendants that outlive the worker get the same when the worker ends. It ends as the
worker ended: by the same exit code or signal.

On Linux it is the reaper of its descendants. So it also finds descendants that have left the
worker's process group and whose parents have ended. The kernel kills the worker if the supervisor
is killed. On other systems it ends the worker's process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

INTERRUPT = b"I"
"""Byte for the lifeline: the worker's process group gets SIGINT, as after Ctrl-C."""
STOP = b"S"
"""Byte for the lifeline: the worker and its descendants get SIGTERM, and SIGKILL later."""
KILL = b"K"
"""Byte for the lifeline: the worker and its descendants get SIGKILL without a grace period."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_AGAIN_S = 0.2  # a process may have forked meanwhile
_LEFTOVERS_GRACE_S = 2.0
"""Seconds for processes that a worker leaves behind when it ends by itself, such as a pool's."""
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def main(grace_s: float, cpus: set[int], command: list[str]) -> NoReturn:
    """Runs the worker, and ends as it ended once all of its descendants have ended, too."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    supervisor = os.getpid()
    worker = os.fork()
    if not worker:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        _become(command, cpus, supervisor)
    _in_background(_follow_lifeline, worker, grace_s)
    status = 0
    with contextlib.suppress(ChildProcessError):  # no child is left
        while True:
            pid, ended = os.waitpid(-1, 0)
            if pid == worker:
                status = ended
                _in_background(_end, worker, min(grace_s, _LEFTOVERS_GRACE_S))
    if _LIBC is None:  # not the reaper: others of the group may be left
        _signal_all(worker, signal.SIGKILL)
    _end_as(status)


def _become(command: list[str], cpus: set[int], supervisor: int) -> NoReturn:
    """Turns this process, a fork of the supervisor, into the worker."""
    try:
        os.setsid()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != supervisor:
                os._exit(1)
            if cpus:
                os.sched_setaffinity(0, cpus)
        os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
        os.execvp(command[0], command)
    except BaseException as error:
        os.write(2, f"keras-gpukit launch: {command[0]}: {error}\n".encode())
    os._exit(127)


def _follow_lifeline(worker: int, grace_s: float) -> None:
    while received := os.read(sys.stdin.fileno(), 64):
        if INTERRUPT in received:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker, signal.SIGINT)
        if STOP in received:
            _in_background(_end, worker, grace_s)
        if KILL in received:
            _end(worker, 0.0)
    _end(worker, grace_s)


def _end(worker: int, grace_s: float) -> None:
    if grace_s:
        _signal_all(worker, signal.SIGTERM)
        time.sleep(grace_s)
    while True:
        _signal_all(worker, signal.SIGKILL)
        time.sleep(_KILL_AGAIN_S)


def _signal_all(worker: int, number: signal.Signals) -> None:
    """Sends a signal to the worker's process group, and to each descendant outside of it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, number)
    for pid in _descendants():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != worker:
                os.kill(pid, number)


def _descendants() -> set[int]:
    """Returns the descendants of this process; empty if the system has no /proc."""
    parents = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The name of a process is in parentheses, and may itself contain some.
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    found, more = set[int](), {os.getpid()}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more}
        found |= more
    return found


def _in_background(action: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=action, args=arguments, daemon=True).start()


def _end_as(status: int) -> NoReturn:
    """Ends this process by the exit code or the signal in a status of `os.waitpid`."""
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    grace, given, *words = sys.argv[1:]
    main(float(grace), {int(number) for number in given.split(",") if number}, words)
