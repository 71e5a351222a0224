"""One running process of a job, and its end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_gpukit.launching.processes import keeper
from keras_gpukit.launching.processes.tasks import Task

_KEEPER = Path(keeper.__file__)


class WorkerProcess:
    """A task's process, under a keeper.

    Args:
        task: What it is.
        command: What it runs.
        environment: All of its environment variables.
        stdout: File descriptor that it writes to.
        stderr: The same of its errors.
        grace_s: Seconds from SIGTERM to SIGKILL.
        cpus: The processors that it may use; empty for all.

    Attributes:
        task: What it is.
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
        """Its exit code, or the negative number of the signal that killed it; None if it runs."""
        return self._keeper.poll()

    def interrupt(self) -> None:
        """Sends SIGINT to its process group, as Ctrl-C would."""
        self._say(keeper.INTERRUPT)

    def stop(self) -> None:
        """Sends SIGTERM, and SIGKILL after the grace period."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()

    def kill(self) -> None:
        """Sends SIGKILL."""
        self._say(keeper.KILL)
        self.stop()

    def _say(self, word: bytes) -> None:
        assert self._keeper.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it ended, or is being stopped
            os.write(self._keeper.stdin.fileno(), word)
