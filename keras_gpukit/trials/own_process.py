"""A process for trials, which answers messages; its output goes to a file."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

from keras_gpukit.errors import NOT_ON_WINDOWS, TrialError

_LOG_SHOWN = 2000
_ENDS_WITHIN_S = 5.0


class OwnProcess:
    """A process that runs a function, from the moment that this object is made.

    Args:
        context: Context of `multiprocessing`.
        serve: Function to run. It gets its end of the connection, a connection whose descriptor is
            that of the log, and `arguments`.
        arguments: Further arguments of `serve`.
        daemon: Whether the process may have no processes of its own.

    Raises:
        TrialError: On native Windows, where descriptors are not passed so.
    """

    def __init__(
        self,
        context: BaseContext,
        serve: Callable[..., None],
        *arguments: Any,
        daemon: bool = True,
    ) -> None:
        if sys.platform == "win32":
            raise TrialError(NOT_ON_WINDOWS)
        self.connection, there = context.Pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        log = Connection(os.dup(self._log.fileno()), readable=False)  # how a descriptor is passed
        self._process = context.Process(  # type: ignore[attr-defined]
            target=serve, args=(there, log, *arguments), name="gpukit-trial", daemon=daemon
        )
        self._process.start()
        there.close()
        log.close()

    def ended(self) -> tuple[int | None, str]:
        """Waits for the end; returns the exit code, and the last part of the log."""
        self._process.join(_ENDS_WITHIN_S)
        self._log.seek(0)
        return self._process.exitcode, self._log.read().decode(errors="replace")[-_LOG_SHOWN:]

    def close(self) -> None:
        """Ends the process, and those that it started if it leads a group of processes."""
        # Kill the process: its work is no longer needed, and TensorFlow takes long to end.
        with suppress(OSError):  # it has ended
            if os.getpgid(self._process.pid) == self._process.pid:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._process.close()
        self._log.close()
