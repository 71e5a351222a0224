"""The parent of one worker, which leaves no process behind when the launcher ends or dies.

    python -I -S keeper.py GRACE_S CPUS COMMAND …

The keeper is a separate program that needs only Python's standard library, so it starts within
20 ms. Its standard input is the *lifeline*, a pipe from the launcher. The lifeline closes when the
launcher closes it or is killed. Then the worker's process group gets SIGTERM, and after the grace
period the worker and all its descendants get SIGKILL. Descendants that outlive the worker get
SIGTERM when the worker ends. The keeper ends as the worker ended: by the same exit code or signal.

On Linux the keeper is the reaper of its descendants. So it also finds descendants that have left
the worker's process group and whose parents have ended. The kernel kills the worker if the keeper
is killed. On other systems the keeper ends the worker's process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

INTERRUPT = b"I"
"""Byte for the lifeline: the worker's process group gets SIGINT, as after Ctrl-C."""
KILL = b"K"
"""Byte for the lifeline: the worker and its descendants get SIGKILL without a grace period."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_AGAIN_S = 0.2
_LEFTOVERS_GRACE_S = 2.0
"""Seconds for processes that a worker leaves behind when it ends by itself, such as a pool's."""


class Keeper:
    """Starts a worker and waits for its end.

    Args:
        command: Command line of the worker.
        grace_s: Seconds from SIGTERM to SIGKILL.
        cpus: Processors that the worker may use; empty for all.
    """

    def __init__(self, command: list[str], grace_s: float, cpus: set[int]) -> None:
        self._grace_s = grace_s
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        if self._libc is not None:
            self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # Signals interrupt the wait by a byte in this pipe. They are handled, not ignored: the
        # worker would inherit ignored signals, but it does not inherit handlers.
        self._wakeup, written = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        self._kill_at_s: float | None = None
        self._status: int | None = None
        self._worker = self._start(command, cpus)

    def wait(self) -> int:
        """Waits until the worker and its descendants have ended."""
        watched = [sys.stdin.fileno(), self._wakeup]
        while not self._have_ended():
            timeout_s = None
            if self._kill_at_s is not None:
                timeout_s = self._kill_at_s - time.monotonic()
                if timeout_s <= 0:
                    self._signal_all(signal.SIGKILL)
                    timeout_s = _KILL_AGAIN_S  # a process may have forked meanwhile
            ready, _, _ = select.select(watched, [], [], timeout_s)
            if self._wakeup in ready and {signal.SIGTERM, signal.SIGHUP} & set(
                os.read(self._wakeup, 512)
            ):
                self._terminate(self._grace_s)
            if sys.stdin.fileno() in ready:
                said = os.read(sys.stdin.fileno(), 64)
                if INTERRUPT in said:
                    self._signal_group(signal.SIGINT)
                if KILL in said:
                    self._kill_at_s = time.monotonic()
                if not said:
                    watched.remove(sys.stdin.fileno())
                    self._terminate(self._grace_s)
        assert self._status is not None
        return self._status

    def _start(self, command: list[str], cpus: set[int]) -> int:
        keeper = os.getpid()
        worker = os.fork()
        if worker:
            return worker
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
            if self._libc is not None:
                self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != keeper:
                    os._exit(1)
                if cpus:
                    os.sched_setaffinity(0, cpus)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, sys.stdin.fileno())
            os.execvp(command[0], command)
        except BaseException as error:
            os.write(2, f"keras-gpukit launch: {command[0]}: {error}\n".encode())
        os._exit(127)

    def _have_ended(self) -> bool:
        """Reaps processes that have ended, and returns whether the worker and all others have."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return False
                if pid == self._worker:
                    self._status = status
                    self._terminate(min(self._grace_s, _LEFTOVERS_GRACE_S))
        except ChildProcessError:  # no child is left
            if self._libc is None:  # not the reaper: others of the group may be left
                self._signal_group(signal.SIGKILL)
            return True

    def _terminate(self, grace_s: float) -> None:
        self._signal_group(signal.SIGTERM)
        if self._status is not None:  # all that the worker left behind, in any process group
            self._signal_all(signal.SIGTERM)
        kill_at_s = time.monotonic() + grace_s
        self._kill_at_s = min(kill_at_s, self._kill_at_s or kill_at_s)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._worker, number)

    def _signal_all(self, number: signal.Signals) -> None:
        self._signal_group(number)
        for pid in self._descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _descendants(self) -> set[int]:
        """Returns the descendants of this process; empty if the system has no /proc."""
        parents = dict(_parents())
        found = {os.getpid()}
        while True:
            more = {pid for pid, parent in parents.items() if parent in found} - found
            if not more:
                return found - {os.getpid()}
            found |= more


def _parents() -> Iterator[tuple[int, int]]:
    if sys.platform != "linux":
        return
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The name of a process is in parentheses, and may itself contain some.
                yield int(name), int(file.read().rpartition(b")")[2].split()[1])


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
    _end_as(Keeper(words, float(grace), {int(each) for each in given.split(",") if each}).wait())
