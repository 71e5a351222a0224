"""Runs trials in separate processes.

A trial process imports the running script, which must guard its code with
`if __name__ == "__main__":`. It ends with the process that runs the search, however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from keras_gpukit.errors import TrialError
from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.trials.batch_sizes.job import TrialJob
from keras_gpukit.trials.batch_sizes.trainer import DoesNotFit, Survey, Trainer
from keras_gpukit.trials.own_process import OwnProcess

_LOADED = "keras_gpukit.trials.batch_sizes.loaded_quietly"
# Signals that end a process that ran out of memory: TensorFlow aborts, an access fails, or the
# system kills the process. Windows has no SIGBUS and no SIGKILL.
OF_MEMORY = frozenset(
    number
    for number in signal.Signals
    if number.name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGKILL")
)
P = ParamSpec("P")
T = TypeVar("T")


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


class InOwnProcesses:
    """Does the work of a `Trainer` in separate processes that hold nothing else in memory."""

    def __init__(self, job: TrialJob, context: BaseContext) -> None:
        self._job, self._context = job, context
        self._processes = [_TrialProcess(job, context)]

    def survey(self) -> Survey:
        """Same as `Trainer.survey`."""
        return self._processes[0].call(Trainer.survey)

    def train(self, batch_size: int, last: float = 0.0, withheld_bytes: int = 0) -> int | None:
        """Same as `Trainer.train`."""
        return self._processes[0].call(Trainer.train, batch_size, last, withheld_bytes)

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """Same as `Trainer.rate`."""
        return self._processes[0].call(Trainer.rate, batch_size, seconds)

    def renew(self) -> None:
        """Continues in a new process, and starts the one after it in advance."""
        self._processes.pop(0).close()
        while len(self._processes) < 2:
            self._processes.append(_TrialProcess(self._job, self._context))

    def close(self) -> None:
        """Ends the trial processes."""
        for process in self._processes:
            process.close()


class _TrialProcess(OwnProcess):
    """A process that starts at once and loads TensorFlow; the first call loads the model."""

    def __init__(self, job: TrialJob, context: BaseContext) -> None:
        super().__init__(context, serve, job)
        self._started = False

    def call(
        self, method: Callable[Concatenate[Trainer, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Calls a method of `Trainer` in the process, and returns its result.

        Raises:
            DoesNotFit: If memory ran out, or the process ended as if memory ran out.
            TrialError: If the call failed for another reason, or the process did not start.
        """
        try:
            if not self._started:
                self.connection.recv()
                self._started = True
            self.connection.send((method.__name__, args, kwargs))
            error, result = self.connection.recv()
        except (EOFError, OSError):
            raise self._failed() from None
        if error is not None:
            raise error
        return cast(T, result)

    def _failed(self) -> Exception:
        code, errors = self.ended()
        if not self._started:
            return TrialError(
                "The process of a trial did not start. It imports the script that runs: keep that "
                'in a file, and what it does under if __name__ == "__main__":. '
                f"Received: exit code {code}\n{errors}"
            )
        if code is not None and -code in OF_MEMORY:
            return DoesNotFit(f"its process ended by {signal.Signals(-code).name}")
        return TrialError(f"The process of a trial ended with code {code}.\n{errors}")


def serve(connection: Connection, log: Connection, job: TrialJob) -> None:
    """Runs in the trial process: answers calls until the other end of the connection is closed."""
    # TensorFlow logs many lines if memory runs out, which is an expected outcome here.
    os.dup2(log.fileno(), 2)
    log.close()
    with suppress(EOFError, OSError, KeyboardInterrupt):  # the other process is gone
        _answer(connection, job)


def _answer(connection: Connection, job: TrialJob) -> None:
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    connection.send("started")
    trainer: Trainer | None = None
    while True:
        method, args, kwargs = connection.recv()
        try:
            if trainer is None:
                job.settings.make()
                trainer = Trainer(job.model(), job.examples)
            reply: tuple[Exception | None, Any] = None, getattr(trainer, method)(*args, **kwargs)
        except DoesNotFit as error:
            reply = error, None
        except Exception:
            report = traceback.format_exc()
            reply = TrialError(f"A trial failed in its own process:\n{report}"), None
        connection.send(reply)
