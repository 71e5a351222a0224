"""Stands in for TensorFlow in servers of which only the processes matter: each listens and waits.

To import TensorFlow takes each of them seconds of a core.
"""

import json
import os
import signal
import socket
from types import SimpleNamespace


class Listens:
    """A server at a port."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("", port))
        self._socket.listen()

    def join(self) -> None:
        """Waits for ever."""
        while True:
            signal.pause()


class TFConfigClusterResolver:
    """Reads `TF_CONFIG`."""

    rpc_layer = None

    def __init__(self) -> None:
        config = json.loads(os.environ["TF_CONFIG"])
        self.cluster_spec = lambda: config["cluster"]
        self.task_type, self.task_id = config["task"]["type"], config["task"]["index"]


def server(cluster: dict[str, list[str]], job_name: str, task_index: int, protocol: str) -> Listens:
    """The server of a task."""
    assert protocol == "grpc"
    return Listens(int(cluster[job_name][task_index].rpartition(":")[2]))


resolver = SimpleNamespace(TFConfigClusterResolver=TFConfigClusterResolver)
distribute = SimpleNamespace(Server=server, cluster_resolver=resolver)
servers = {"DispatchServer": Listens, "WorkerServer": Listens}
ports = {"DispatcherConfig": lambda port: port, "WorkerConfig": lambda dispatcher_address: 0}
data = SimpleNamespace(experimental=SimpleNamespace(service=SimpleNamespace(**servers, **ports)))
