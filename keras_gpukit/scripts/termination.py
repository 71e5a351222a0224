"""Finishes the records of a run that SIGTERM ends, such as the preemption of a job.

The process still ends by the signal, a moment later. A handler that the script sets replaces ours,
and then all is as without this package. Slurm and Kubernetes send SIGKILL 30 s after SIGTERM.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

WITHIN_S = 20.0
"""Maximum seconds from the signal to the end of the process; our choice."""


class Termination:
    """Calls an action before SIGTERM ends this process.

    The action runs on a thread of its own, since a training thread that waits inside TensorFlow
    runs no Python code. Python notifies that thread through a pipe.
    """

    def __init__(self, finish: Callable[[], None]) -> None:
        self._finish = finish
        self._pipe: tuple[int, int] | None = None

    def install(self) -> None:
        """Handles SIGTERM from now on, unless the script does or this is not the main thread.

        Windows ends processes without a signal; nothing is handled there.

        Forks of this process, such as children of multiprocessing, get the default action back.
        """
        if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        if self._pipe is None:
            self._pipe = os.pipe()
            writing = self._pipe[1]
            os.set_blocking(writing, False)
            wait = threading.Thread(target=self._wait, name="gpukit-termination", daemon=True)
            wait.start()
            os.register_at_fork(after_in_child=self._in_fork)
            before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
            if before != -1:
                signal.set_wakeup_fd(before)  # then only `_handle` notifies the thread
        signal.signal(signal.SIGTERM, self._handle)

    @property
    def _is_installed(self) -> bool:
        return signal.getsignal(signal.SIGTERM) == self._handle

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Notifies the thread, if it was not; does nothing if a script's own handler calls it."""
        if self._pipe is not None and self._is_installed:
            with contextlib.suppress(BlockingIOError):
                os.write(self._pipe[1], bytes([number]))

    def _wait(self) -> None:
        assert self._pipe is not None
        while signal.SIGTERM not in os.read(self._pipe[0], 512) or not self._is_installed:
            pass
        threading.Timer(WITHIN_S, _end).start()
        with contextlib.suppress(Exception):
            self._finish()
        _end()

    def _in_fork(self) -> None:
        if self._is_installed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        descriptor = signal.set_wakeup_fd(-1)
        if self._pipe is None or descriptor != self._pipe[1]:
            signal.set_wakeup_fd(descriptor)  # another one's


def _end() -> None:
    """Ends this process by SIGTERM, on any thread: Python's own function needs the main thread."""
    ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
    os.kill(os.getpid(), signal.SIGTERM)
