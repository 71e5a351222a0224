"""Waits until every process of a cluster can be reached, and serves one until it has ended.

TensorFlow's strategies wait for missing processes for many minutes, do not name them, and ignore
SIGTERM meanwhile. Here a process listens at its own address until it has reached all others. Then
it frees the address for TensorFlow's server, which answers there from then on.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from keras_gpukit.errors import WorkerError, logger
from keras_gpukit.records.cluster import Cluster

_RETRY_S = 0.2
_ANSWER_WITHIN_S = 2.0
_SAY_AFTER_S = 10.0


def wait_for_tasks(own_address: str | None, others: Mapping[str, str], timeout_s: float) -> None:
    """Returns when all other tasks, by name, answer at their addresses.

    Meanwhile this process listens at its own; one that the others do not wait for has none.
    """
    started_s = time.monotonic()
    is_reported = False
    missing = dict(others)
    with _listening(own_address) as listener:
        while True:
            _hang_up(listener)
            missing = {name: at for name, at in missing.items() if not answers(at)}
            if not missing:
                return
            waited_s = time.monotonic() - started_s
            if waited_s >= timeout_s:
                raise WorkerError(
                    f"{_listed(missing)} did not answer within {timeout_s:g} s. Look in its log "
                    "for why it ended or did not start, and check that this machine can reach its "
                    "address. If it only needs longer, raise `worker_timeout_s`."
                )
            if waited_s >= _SAY_AFTER_S and not is_reported:
                is_reported = True
                logger.warning("keras_gpukit: still waiting for %s.", _listed(missing))
            time.sleep(_RETRY_S)


def answers(address: str) -> bool:
    """Whether a process accepts connections at an address."""
    try:
        with socket.create_connection(_split(address), timeout=_ANSWER_WITHIN_S):
            return True
    except OSError:
        return False


def _listening(address: str | None) -> AbstractContextManager[socket.socket | None]:
    """Listens on the port of an address, on all interfaces as TensorFlow's server does later."""
    if address is None:
        return nullcontext()
    _, port = _split(address)
    try:
        listener = _listen_on_all_interfaces(port)
    except OSError as error:
        raise WorkerError(
            f"This process cannot listen at its own address, {address}: {error.strerror}. Another "
            "process uses the port, such as an earlier run that has not ended; or two tasks of the "
            "cluster have the same address on one machine."
        ) from error
    listener.setblocking(False)
    return listener


def _listen_on_all_interfaces(port: int) -> socket.socket:
    # Whether TensorFlow's server will share its port, as `keras-gpukit launch` reserves it.
    shared = os.environ.get("TF_GRPC_REUSE_PORT", "").lower() in ("1", "true")
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, reuse_port=shared
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
    # Containers often have IPv6 switched off.
    return socket.create_server(("", port), reuse_port=shared)


def _hang_up(listener: socket.socket | None) -> None:
    """Closes connections from other processes: connecting showed them that this one is there."""
    while listener is not None:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _listed(tasks: Mapping[str, str]) -> str:
    return ", ".join(f"{name} at {address}" for name, address in tasks.items())


_LOOK_EVERY_S = 1.0
_GONE_AFTER_S = 10.0
"""Seconds without an answer after which the coordinator has ended; its port may be busy briefly."""


def wait_for_end(
    is_there: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Returns once `is_there` has been False for ten seconds."""
    last_seen = clock()
    while clock() - last_seen < _GONE_AFTER_S:
        sleep(_LOOK_EVERY_S)
        if is_there():
            last_seen = clock()


def start_server(resolver: Any) -> Any:
    """Starts TensorFlow's server of this process, which serves as long as it is kept."""
    import tensorflow as tf

    return tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
    )


@dataclass(frozen=True)
class ClusterTask:
    """This process's part in its cluster."""

    cluster: Cluster
    gpus: int
    worker_timeout_s: float

    def __str__(self) -> str:
        return str(self.cluster)

    def wait_for(self, *roles: str) -> None:
        """Returns when all other tasks in these roles answer."""
        cluster = self.cluster
        others = {
            f"{role} {index}": address
            for role in roles
            for index, address in enumerate(cluster.addresses.get(role, ()))
            if (role, index) != (cluster.task_type, cluster.task_index)
        }
        wait_for_tasks(cluster.address, others, self.worker_timeout_s)

    def serve(self) -> None:
        """Serves the coordinator until it has ended."""
        server = start_server(self.resolver())
        (coordinator,) = self.cluster.addresses["chief"]
        wait_for_end(lambda: answers(coordinator))
        del server

    def resolver(self) -> Any:
        """Returns the cluster resolver that TensorFlow's strategies accept."""
        import tensorflow as tf

        return tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({r: list(a) for r, a in self.cluster.addresses.items()}),
            task_type=self.cluster.task_type,
            task_id=self.cluster.task_index,
            num_accelerators={"GPU": self.gpus},
            rpc_layer="grpc",
        )
