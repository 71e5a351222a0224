"""Runs trials in separate processes.

A trial process imports the running script, which must guard its code with
`if __name__ == "__main__":`.

If the process that runs the search dies, however it ends, the trial process removes the folder of
the job. For this it ignores the signals that a terminal or a batch system sends to both processes.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from keras_gpukit.errors import TrialError
from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.trials.batch_sizes.job import Job
from keras_gpukit.trials.batch_sizes.trainer import DoesNotFit, Survey, Trainer, Work

_LOADED = "keras_gpukit.trials.batch_sizes.loaded_quietly"
_LOG_SHOWN = 2000
# Signals that end a process that ran out of memory: TensorFlow aborts, an access fails, or the
# system kills the process.
_OF_MEMORY = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGKILL})
_ENDS_WITHIN_S = 5.0
# TensorFlow's allocator waits ten seconds for memory before each failure. A trial that takes so
# many seconds longer than so many times the longest one waits for memory at one operation after
# another. A step up makes a batch at most four times as large.
_WAITS_S, _LONGER = 12.0, 4.0


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
                stop()


class InOwnProcesses:
    """Runs trials in separate processes that hold nothing else in memory.

    Args:
        job: The model, examples and device settings for the trials.
        context: Context of `multiprocessing` with which to start processes.
    """

    def __init__(self, job: Job, context: BaseContext) -> None:
        self._job, self._context = job, context
        self._longest_s = 0.0
        self._processes = [_TrialProcess(job, context)]

    def survey(self) -> Survey:
        """Same as `Trainer.survey`."""
        began = time.perf_counter()
        survey: Survey = self._processes[0].call("survey")
        self._longest_s = time.perf_counter() - began
        return survey

    def train(self, batch_size: int, work: Work) -> int | None:
        """Same as `Trainer.train`."""
        began = time.perf_counter()
        limit_s = _WAITS_S + _LONGER * self._longest_s
        peak_bytes: int | None = self._processes[0].call("train", batch_size, work, limit_s=limit_s)
        self._longest_s = max(self._longest_s, time.perf_counter() - began)
        return peak_bytes

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """Same as `Trainer.rate`."""
        rate: tuple[Rate, int | None] = self._processes[0].call("rate", batch_size, seconds)
        return rate

    def renew(self) -> None:
        """Continues in a new process, and starts the one after it in advance."""
        self._processes.pop(0).close()
        while len(self._processes) < 2:
            self._processes.append(_TrialProcess(self._job, self._context))

    def close(self) -> None:
        """Ends the trial processes."""
        for process in self._processes:
            process.close()


class _TrialProcess:
    """A process that starts at once and loads TensorFlow; the first call loads the model."""

    def __init__(self, job: Job, context: BaseContext) -> None:
        self._connection, there = context.Pipe()
        self._process = context.Process(  # type: ignore[attr-defined]
            target=serve, args=(there, job), name="gpukit-trial", daemon=True
        )
        self._started = False
        self._process.start()
        self._log = _log(job, self._process.pid)
        there.close()

    def call(self, method: str, *args: Any, limit_s: float | None = None) -> Any:
        """Calls a method of the `Trainer` in the process, and returns its result.

        Raises:
            DoesNotFit: If memory ran out, the process ended as if memory ran out, or the call took
                longer than `limit_s`.
            TrialError: If the call failed for another reason, or the process did not start.
        """
        try:
            if not self._started:
                self._connection.recv()
                self._started = True
            self._connection.send((method, args))
            if not self._connection.poll(limit_s):
                raise DoesNotFit("it waited for memory")
            outcome, value = self._connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if outcome == "does not fit":
            raise DoesNotFit(value)
        if outcome == "failed":
            raise TrialError(f"A trial failed in its own process:\n{value}")
        return value

    def close(self) -> None:
        """Ends the process."""
        # Kill the process: its work is no longer needed, and TensorFlow takes long to end. It must
        # not see the connection closed, as it would remove the folder that others still need.
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process.close()

    def _ended(self) -> Exception:
        self._process.join(_ENDS_WITHIN_S)
        code = self._process.exitcode
        errors = self._log.read_text(errors="replace") if self._log.exists() else ""
        errors = errors[-_LOG_SHOWN:]
        if not self._started:
            return TrialError(
                "The process of a trial did not start. It imports the script that runs: keep that "
                'in a file, and what it does under if __name__ == "__main__":. '
                f"Received: exit code {code}\n{errors}"
            )
        if code is not None and -code in _OF_MEMORY:
            return DoesNotFit(f"its process ended by {signal.Signals(-code).name}")
        return TrialError(f"The process of a trial ended with code {code}.\n{errors}")


def serve(connection: Connection, job: Job) -> None:
    """Runs in the trial process: answers calls until the other end of the connection is closed."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        _answer(connection, job)
    except (EOFError, OSError):  # the other process is gone
        shutil.rmtree(job.folder, ignore_errors=True)


def _answer(connection: Connection, job: Job) -> None:
    # TensorFlow logs many lines if memory runs out, which is an expected outcome here.
    log = os.open(_log(job, os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 2)
    os.close(log)
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    connection.send("started")
    trainer: Trainer | None = None
    while True:
        method, args = connection.recv()
        try:
            if trainer is None:
                job.devices.apply()
                trainer = Trainer(job.model(), job.examples())
            reply: tuple[str, Any] = "done", getattr(trainer, method)(*args)
        except DoesNotFit as error:
            reply = "does not fit", str(error)
        except Exception:
            reply = "failed", traceback.format_exc()
        connection.send(reply)


def _log(job: Job, pid: int | None) -> Path:
    return job.folder / f"errors-{pid}.txt"
