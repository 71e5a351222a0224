"""Starts one process of a job, and ends it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_gpukit.distributed.launching.processes import keeper
from keras_gpukit.distributed.launching.processes.tasks import Task

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

    Attributes:
        task: Task of the process.
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
