"""Processes that have TensorFlow loaded when they start, where the system can fork.

To load it takes seconds, and each trial of memory needs a process that holds nothing else. On Linux
the fork server of `multiprocessing` loads it once, and forks for each process. TensorFlow's devices
start only there, so none of them is inherited. Elsewhere each process loads TensorFlow itself.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import forkserver
from multiprocessing.context import BaseContext

_LOADED = "keras_gpukit.experiments.batch_sizes.loaded_quietly"


class PreparedProcesses:
    """Makes them; close it when all of them have ended.

    Attributes:
        context: Of `multiprocessing`, to start one with.
    """

    def __init__(self) -> None:
        forks = sys.platform == "linux"
        self.context: BaseContext = multiprocessing.get_context("forkserver" if forks else "spawn")
        # The server is one per process. One that runs is the caller's: it loads nothing for us.
        self._is_ours = forks and _server_pid() is None
        if self._is_ours:
            forkserver.set_forkserver_preload([_LOADED])

    def close(self) -> None:
        """Ends the server, unless it is the caller's."""
        if self._is_ours:
            self._is_ours = False
            forkserver.set_forkserver_preload(["__main__"])
            _stop_server()


# Private names of Python, seen in 3.11. Without them the server stays until this process
# ends.


def _server_pid() -> int | None:
    server = getattr(forkserver, "_forkserver", None)
    pid: int | None = getattr(server, "_forkserver_pid", None)
    return pid


def _stop_server() -> None:
    stop = getattr(getattr(forkserver, "_forkserver", None), "_stop", None)
    if stop is not None:
        stop()
