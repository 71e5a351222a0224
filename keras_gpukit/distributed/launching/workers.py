"""Starts and ends the processes of a job, by signals that the launcher gets."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from keras_gpukit.distributed.launching import keeper
from keras_gpukit.distributed.launching.job import Task

_KEEPER = Path(keeper.__file__)


class WorkerProcess:
    """The process of a task, started by a keeper.

    Args:
        task: Task of the process.
        command: Command line of the process.
        environment: All environment variables of the process.
        stdout: File descriptor for its standard output.
        stderr: File descriptor for its standard error.
        grace_s: Seconds from SIGTERM to SIGKILL.
        cpus: Processors that the process may use; empty for all.
    """

    def __init__(
        self,
        task: Task,
        command: Sequence[str],
        environment: Mapping[str, str],
        stdout: int,
        stderr: int,
        *,
        grace_s: float,
        cpus: Sequence[int] = (),
    ) -> None:
        self.task = task
        options = (str(grace_s), ",".join(map(str, cpus)))
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), *options, *command],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the launcher, which passes it on
        )

    @property
    def returncode(self) -> int | None:
        """Exit code, or negative number of the signal that killed the process; None if it runs."""
        return self._keeper.poll()

    def interrupt(self) -> None:
        """Sends SIGINT to the process group, as Ctrl-C would."""
        self._say(keeper.INTERRUPT)

    def stop(self) -> None:
        """Sends SIGTERM to the process group, and SIGKILL to all that is left after `grace_s`."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()

    def kill(self) -> None:
        """Sends SIGKILL to the process and its descendants."""
        self._say(keeper.KILL)
        self.stop()

    def _say(self, word: bytes) -> None:
        assert self._keeper.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it ended, or is being stopped
            os.write(self._keeper.stdin.fileno(), word)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HANDLED = (*ENDING, signal.SIGCHLD, signal.SIGWINCH)


class Signals:
    """Context manager that collects signals; works only in the main thread of a process."""

    def __init__(self) -> None:
        self.descriptor, self._written = os.pipe()
        for each in (self.descriptor, self._written):
            os.set_blocking(each, False)
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        self._wakeup_before = signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        for number in _HANDLED:
            # Signals that the caller ignores stay ignored, such as SIGHUP under nohup.
            if signal.getsignal(number) is not signal.SIG_IGN or number not in ENDING:
                self._before[number] = signal.signal(number, _noted)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.descriptor)
        os.close(self._written)

    def read(self) -> list[signal.Signals]:
        """Returns the signals that have arrived since the last call."""
        try:
            return [signal.Signals(number) for number in os.read(self.descriptor, 512)]
        except BlockingIOError:
            return []


def _noted(number: int, frame: FrameType | None) -> None:
    """Does nothing: Python writes a signal's number to the pipe only if it has a handler."""
