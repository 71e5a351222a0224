"""Reserves ports of this machine, so that no other process can take them while a job runs.

The kernel chooses each port among the free ones. The port is bound here, and stays bound until the
job ends. So there is no moment in which another process could take it, such as one of a second job
that starts at the same time. TensorFlow's server can bind it nevertheless: with the environment
variable `TF_GRPC_REUSE_PORT` (tensorflow#38705 of 2020; run with TensorFlow 2.21) it binds with
SO_REUSEPORT. The system allows that to processes of the same user if the first one has set it,
too. Connections reach only the socket that listens, which is the server's.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

REUSE = {"TF_GRPC_REUSE_PORT": "1"}
"""Environment variables for processes that use reserved ports."""
HOST = "127.0.0.1"


@contextlib.contextmanager
def reserved_ports(count: int) -> Iterator[tuple[int, ...]]:
    """Yields free ports, which stay reserved until the block ends.

    Raises:
        OSError: If the system has no more free ports.
    """
    with contextlib.ExitStack() as stack:
        reserved = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in reserved:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind(("", 0))  # on all interfaces, as TensorFlow's server binds it
        yield tuple(each.getsockname()[1] for each in reserved)


def address_of(port: int) -> str:
    """Returns the "host:port" of a port on this machine."""
    return f"{HOST}:{port}"


def is_listening(port: int) -> bool:
    """Whether a process on this machine accepts connections on a port."""
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.settimeout(1.0)
        probe.connect((HOST, port))
        return True
    return False
