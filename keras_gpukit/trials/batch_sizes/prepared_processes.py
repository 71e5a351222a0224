"""Starts processes that have TensorFlow loaded already, on systems that can fork.

Loading TensorFlow takes seconds, and each memory trial needs a process that holds nothing else. On
Linux, the fork server of `multiprocessing` loads TensorFlow once and forks each process from it.
TensorFlow's devices start only in the forked processes, so no device is inherited. On other
systems, each process loads TensorFlow itself.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import forkserver
from multiprocessing.context import BaseContext

_LOADED = "keras_gpukit.trials.batch_sizes.loaded_quietly"


class PreparedProcesses:
    """Prepares a fork server; call `close` when all its processes have ended.

    Attributes:
        context: Context of `multiprocessing` with which to start processes.
    """

    def __init__(self) -> None:
        forks = sys.platform == "linux"
        self.context: BaseContext = multiprocessing.get_context("forkserver" if forks else "spawn")
        # A process has one server only. If one runs already, it is the caller's and loads nothing
        # for us.
        self._is_ours = forks and _server_pid() is None
        if self._is_ours:
            forkserver.set_forkserver_preload([_LOADED])

    def close(self) -> None:
        """Stops the fork server, unless it is the caller's."""
        if self._is_ours:
            self._is_ours = False
            forkserver.set_forkserver_preload(["__main__"])
            _stop_server()


# The next two functions use private names of Python, seen in 3.11. Without these names, the server
# runs until this process ends.


def _server_pid() -> int | None:
    server = getattr(forkserver, "_forkserver", None)
    pid: int | None = getattr(server, "_forkserver_pid", None)
    return pid


def _stop_server() -> None:
    stop = getattr(getattr(forkserver, "_forkserver", None), "_stop", None)
    if stop is not None:
        stop()
