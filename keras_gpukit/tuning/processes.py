"""Processes of trials: how they start and end, what they inherit, and where their output goes.

A trial process imports the running script, which must guard its code with
`if __name__ == "__main__":`. It ends with the process that started it, however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

from keras_gpukit.configure.api import apply
from keras_gpukit.errors import NOT_ON_WINDOWS, TrialError
from keras_gpukit.records.installation import Action
from keras_gpukit.sensors.installation import read_machine, read_state

_LOG_SHOWN = 2000
_ENDS_WITHIN_S = 5.0
_LOADED = "keras_gpukit.tuning.loaded_quietly"
# Signals that end a process that ran out of memory: TensorFlow aborts, an access fails, or the
# system kills the process. Windows has no SIGBUS and no SIGKILL.
_OF_MEMORY = frozenset(
    number
    for number in signal.Signals
    if number.name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGKILL")
)


@contextmanager
def prepared_context() -> Iterator[BaseContext]:
    """Yields a context of `multiprocessing` whose processes have TensorFlow loaded, on Linux.

    Loading TensorFlow takes seconds, and each memory trial needs a process that holds nothing else.
    So a fork server loads it once. TensorFlow's devices start in the forked processes only. If the
    caller runs a fork server already, or the system is another, each process loads TensorFlow.
    """
    forks = sys.platform == "linux"
    # Private names of Python, seen in 3.11. Without them, the server ends with this process.
    server = getattr(forkserver, "_forkserver", None)
    is_ours = forks and getattr(server, "_forkserver_pid", None) is None
    if is_ours:
        forkserver.set_forkserver_preload([_LOADED])
    try:
        yield multiprocessing.get_context("forkserver" if forks else "spawn")
    finally:
        if is_ours:
            forkserver.set_forkserver_preload(["__main__"])
            if stop := getattr(server, "_stop", None):
                # Ctrl-C may leave a start that the server has yet to answer, and then wait for.
                if pid := getattr(server, "_forkserver_pid", None):
                    os.kill(pid, signal.SIGKILL)
                stop()


class ProcessEndedError(Exception):
    """A process has ended instead of answering; `memory` is whether it may have run out."""

    def __init__(self, code: int | None, log: str) -> None:
        super().__init__(code, log)
        self.code, self.log = code, log
        self.memory = code is not None and -code in _OF_MEMORY


class OwnProcess:
    """A process that runs a function, from the moment that this object is made.

    The function gets its end of the connection, a connection whose descriptor is that of the log,
    and the arguments. A daemon may have no processes of its own.
    """

    def __init__(
        self,
        context: BaseContext,
        serve: Callable[..., None],
        *arguments: Any,
        daemon: bool = True,
    ) -> None:
        if sys.platform == "win32":  # where descriptors are not passed so
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

    def ask(self, question: Any) -> Any:
        """Sends something to the process; returns or raises what it sends back."""
        with suppress(OSError):  # it has ended: its last words are read below
            self.connection.send(question)
        return self.reply()

    def reply(self) -> Any:
        """Returns what the process sends next, or raises it if it is an exception."""
        try:
            reply = self.connection.recv()
        except (EOFError, OSError):
            raise ProcessEndedError(*self.ended()) from None
        if isinstance(reply, BaseException):
            raise reply
        return reply

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


@dataclass(frozen=True)
class ProcessSettings:
    """Settings of TensorFlow and Keras in a process, which a new process does not inherit."""

    actions: tuple[Action, ...]
    threads: tuple[int, int]

    @classmethod
    def of_this_process(cls) -> ProcessSettings:
        """Reads the settings of this process."""
        state = read_state()
        names = ["soft_placement", "jit", "tf32", "dtype_policy", "visible_gpus"]
        names += ["deterministic"] if state.deterministic else []
        settings = {name: getattr(state, name) for name in names}
        actions = [Action(name, value, "") for name, value in settings.items() if value is not None]
        for gpu in state.visible_gpus:
            limits, grows = state.memory_limit_mib[gpu], state.growth[gpu]
            if limits:
                actions.append(Action("memory_limit_mib", limits, "", gpus=(gpu,)))
            elif grows:
                actions.append(Action("memory_growth", True, "", gpus=(gpu,)))
        return cls(tuple(actions), _threads())

    def make(self) -> None:
        """Makes these settings in this process, before TensorFlow starts its devices."""
        import tensorflow as tf

        apply(self.actions, read_machine())
        if _threads() != self.threads:
            intra, inter = self.threads
            tf.config.threading.set_intra_op_parallelism_threads(intra)
            tf.config.threading.set_inter_op_parallelism_threads(inter)


def _threads() -> tuple[int, int]:
    import tensorflow as tf

    threading = tf.config.threading
    return (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
    )


def check_importable(argument: str, function: Callable[..., Any]) -> None:
    """Checks that another process can import a function."""
    try:
        pickle.dumps(function)
    except Exception as error:
        raise ValueError(
            f"`{argument}`, a function, must be one that another process can import: define it "
            "with def at the top level of a module, and not within a function or as a "
            f"lambda. Received: {argument}={function!r} ({error})"
        ) from error


@contextmanager
def standard_error_to(descriptor: int) -> Iterator[None]:
    """Redirects standard error to an open file descriptor; does nothing if it is closed.

    The log of TensorFlow's C++ code goes along. Its level cannot be changed once it is loaded.
    """
    try:
        shown = os.dup(_STANDARD_ERROR)
    except OSError:
        yield
        return
    try:
        _lead_to(descriptor)
        yield
    finally:
        _lead_to(shown)
        os.close(shown)


_STANDARD_ERROR = 2


def _lead_to(descriptor: int) -> None:
    # Text in Python's buffer belongs to the previous target of standard error.
    if sys.stderr is not None:
        sys.stderr.flush()
    os.dup2(descriptor, _STANDARD_ERROR)
