"""Starts and ends the processes of a job, by signals that the launcher gets."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from keras_gpukit.distributed.launching import keeper
from keras_gpukit.distributed.launching.job import Task

_KEEPER = Path(keeper.__file__)


@dataclass(frozen=True)
class ProcessPlan:
    """Everything that is needed to start the process of a task."""

    task: Task
    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()


class WorkerProcess:
    """The process of a task, started by a keeper."""

    def __init__(
        self,
        plan: ProcessPlan,
        environment: Mapping[str, str],
        stdout: int,
        stderr: int,
        *,
        grace_s: float,
    ) -> None:
        self.task = plan.task
        options = (str(grace_s), ",".join(map(str, plan.cpus)))
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), *options, *plan.command],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env={**environment, **plan.variables},
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the launcher, which passes it on
        )

    @property
    def returncode(self) -> int | None:
        """Exit code, or negative number of the signal that killed the process; None if it runs."""
        return self._keeper.poll()

    def interrupt(self) -> None:
        """Sends SIGINT to the process group, as Ctrl-C would."""
        self._write(keeper.INTERRUPT)

    def stop(self) -> None:
        """Sends SIGTERM to the process, and SIGKILL to all that is left after `grace_s`."""
        self._write(keeper.STOP)

    def kill(self) -> None:
        """Sends SIGKILL to the process and its descendants."""
        self._write(keeper.KILL)

    def _write(self, byte: bytes) -> None:
        assert self._keeper.stdin is not None
        with contextlib.suppress(OSError):  # it has ended
            self._keeper.stdin.write(byte)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def caught_signals() -> Iterator[list[signal.Signals]]:
    """Yields a list to which signals are added instead of ending this process.

    Signals that the caller ignores stay ignored, such as SIGHUP under nohup.
    """
    caught: list[signal.Signals] = []

    def catch(number: int, frame: FrameType | None) -> None:
        caught.append(signal.Signals(number))

    handled = [each for each in ENDING if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, catch) for number in handled}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
