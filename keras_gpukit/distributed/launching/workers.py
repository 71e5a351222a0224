"""Starts and ends the processes of a job, by signals that the launcher gets, and reserves ports.

The kernel chooses each port among the free ones. The port is bound here, and stays bound until the
job ends. So there is no moment in which another process could take it, such as one of a second job
that starts at the same time. TensorFlow's server can bind it nevertheless: with the environment
variable `TF_GRPC_REUSE_PORT` (tensorflow#38705 of 2020; run with TensorFlow 2.21) it binds with
SO_REUSEPORT. The system allows that to processes of the same user if the first one has set it,
too. Connections reach only the socket that listens, which is the server's.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType

from keras_gpukit.distributed.launching import supervisor
from keras_gpukit.distributed.launching.job import Task
from keras_gpukit.distributed.rendezvous import answers

REUSE = {"TF_GRPC_REUSE_PORT": "1"}
"""Environment variables for processes that use reserved ports."""


@contextlib.contextmanager
def reserved_ports(count: int) -> Iterator[tuple[int, ...]]:
    """Yields free ports, which stay reserved until the block ends."""
    with contextlib.ExitStack() as stack:
        reserved = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in reserved:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(("", 0))  # on all interfaces, as TensorFlow's server binds it
        yield tuple(sock.getsockname()[1] for sock in reserved)


def address_of(port: int) -> str:
    """Returns the "host:port" of a port on this machine."""
    return f"127.0.0.1:{port}"


def is_listening(port: int) -> bool:
    """Whether a process on this machine accepts connections on a port."""
    return answers(address_of(port))


class Arrivals:
    """Finds the processes that keep the others waiting.

    A process has joined once it listens on its port, which TensorFlow does when the strategy is
    created. The strategy then waits for the others for many minutes, without a message. A job in
    which no process listens is not a cluster, and has no time limit.
    """

    def __init__(
        self,
        ports: Mapping[Task, int],
        timeout_s: float,
        listens: Callable[[int], bool] = is_listening,
    ) -> None:
        self._missing = dict(ports)
        self._count = len(ports)
        self._timeout_s = timeout_s
        self._listens = listens
        self._first_came_s: float | None = None

    @property
    def nobody_came(self) -> bool:
        """Whether there are several tasks, and none of them has joined so far."""
        return self._first_came_s is None and self._count > 1

    def overdue(self, now_s: float) -> tuple[Task, ...]:
        """Returns the tasks that have not joined in time."""
        missing = self._missing.items()
        self._missing = {task: port for task, port in missing if not self._listens(port)}
        if self._first_came_s is None and len(self._missing) < self._count:
            self._first_came_s = now_s
        if self._first_came_s is None or now_s - self._first_came_s < self._timeout_s:
            return ()
        return tuple(self._missing)


@dataclass(frozen=True)
class ProcessPlan:
    """Everything that is needed to start the process of a task."""

    task: Task
    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()


class WorkerProcess:
    """The process of a task, started by a supervisor."""

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
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, *options, *plan.command],
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
        return self._supervisor.poll()

    def send(self, request: bytes) -> None:
        """Asks the supervisor for one of its requests: `INTERRUPT`, `STOP` or `KILL`."""
        assert self._supervisor.stdin is not None
        with contextlib.suppress(OSError):  # it has ended
            self._supervisor.stdin.write(request)


@contextlib.contextmanager
def caught_signals() -> Iterator[list[signal.Signals]]:
    """Yields a list to which signals are added instead of ending this process.

    Signals that the caller ignores stay ignored, such as SIGHUP under nohup.
    """
    caught: list[signal.Signals] = []

    def catch(number: int, frame: FrameType | None) -> None:
        caught.append(signal.Signals(number))

    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handled = [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, catch) for number in handled}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
