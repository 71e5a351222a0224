"""Ports of this machine that no other process can take while a job runs.

Each port is bound here, by the kernel's choice among the free ones, and stays bound until the job
ends. So no time passes in which another process could take it, such as one of a second job that
starts at the same moment. TensorFlow's server can bind it nevertheless: with the environment
variable `TF_GRPC_REUSE_PORT` (tensorflow#38705 of 2020; run with TensorFlow 2.21) it binds with
SO_REUSEPORT, which the system allows to processes of the same user if the first one has set it
too. Connections reach only the socket that listens, which is the server's.
"""

from __future__ import annotations

import contextlib
import socket
from types import TracebackType

REUSE = {"TF_GRPC_REUSE_PORT": "1"}
"""Environment variables of processes that are to use reserved ports."""
HOST = "127.0.0.1"


class ReservedPorts:
    """Reserves ports until it is closed.

    Args:
        count: How many.

    Raises:
        OSError: If the system has no more free ports.
    """

    def __init__(self, count: int) -> None:
        self._sockets: list[socket.socket] = []
        try:
            for _ in range(count):
                self._sockets.append(_bound())
        except OSError:
            self.close()
            raise
        self.ports = tuple(each.getsockname()[1] for each in self._sockets)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Returns "host:port" of each."""
        return tuple(f"{HOST}:{port}" for port in self.ports)

    def close(self) -> None:
        """Leaves the ports to others."""
        for each in self._sockets:
            each.close()

    def __enter__(self) -> ReservedPorts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def is_listening(port: int) -> bool:
    """Whether a process of this machine accepts connections on a port."""
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.settimeout(1.0)
        probe.connect((HOST, port))
        return True
    return False


def _bound() -> socket.socket:
    # On all interfaces, as TensorFlow's server binds it.
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("", 0))
    return reserved
