"""Runs trials in a separate process.

The trial process imports the running script, which must guard its code with
`if __name__ == "__main__":`.

If the process that runs the search dies, however it ends, the trial process removes the folder of
the job. For this it ignores the signals that a terminal or a batch system sends to both processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import traceback
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from keras_gpukit.errors import TrialError
from keras_gpukit.trials.batch_sizes.job import Job
from keras_gpukit.trials.batch_sizes.memory_wait import WAITS_FOR_MEMORY, MemoryWatch
from keras_gpukit.trials.batch_sizes.trainer import DoesNotFit, Trainer

_LOG_SHOWN = 2000
# Signals that end a process that ran out of memory: TensorFlow aborts, an access fails, or the
# system kills the process.
_OF_MEMORY = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGKILL})
_ENDS_WITHIN_S = 5.0


class TrialProcess:
    """A process for trials. It starts at once and loads TensorFlow; the first call loads the model.

    Args:
        job: The model, examples and device settings for the trials.
        context: Context of `multiprocessing` with which to start the process.
    """

    def __init__(self, job: Job, context: BaseContext) -> None:
        self._connection, there = context.Pipe()
        self._process = context.Process(  # type: ignore[attr-defined]
            target=serve, args=(there, job), name="gpukit-trial", daemon=True
        )
        self._started = False
        self._process.start()
        self._log = _log(job, self._process.pid)
        there.close()

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Calls a method of the `Trainer` in the process, and returns its result.

        Raises:
            DoesNotFit: If memory ran out, or the process ended as if memory ran out.
            TrialError: If the call failed for another reason, or the process did not start.
        """
        try:
            if not self._started:
                self._connection.recv()
                self._started = True
            self._connection.send((method, args, options))
            outcome, value = self._connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if outcome == "does not fit":
            raise DoesNotFit(value)
        if outcome == "failed":
            raise TrialError(f"A trial failed in its own process:\n{value}")
        return value

    def close(self) -> None:
        """Ends the process, if it was not closed yet."""
        if self._connection.closed:
            return
        # Kill the process: its work is no longer needed, and TensorFlow takes long to end. It must
        # not see the connection closed, as it would remove the folder that others still need.
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process.close()

    def _ended(self) -> Exception:
        self._process.join(_ENDS_WITHIN_S)
        code = self._process.exitcode
        if not self._started:
            return TrialError(
                "The process of a trial did not start. It imports the script that runs: keep that "
                'in a file, and what it does under if __name__ == "__main__":. '
                f"Received: exit code {code}\n{self._errors()}"
            )
        if code == WAITS_FOR_MEMORY:
            return DoesNotFit("every thread waited for memory")
        if code is not None and -code in _OF_MEMORY:
            return DoesNotFit(f"its process ended by {signal.Signals(-code).name}")
        return TrialError(f"The process of a trial ended with code {code}.\n{self._errors()}")

    def _errors(self) -> str:
        if not self._log.exists():
            return ""
        return self._log.read_text(errors="replace")[-_LOG_SHOWN:]


def serve(connection: Connection, job: Job) -> None:
    """Runs in the trial process: answers calls until the other end of the connection is closed.

    Args:
        connection: Connection to the process that runs the search.
        job: The model, examples and device settings for the trials.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        _answer(connection, job)
    except (EOFError, OSError):  # the other process is gone
        shutil.rmtree(job.folder, ignore_errors=True)


def _answer(connection: Connection, job: Job) -> None:
    # TensorFlow logs many lines if memory runs out, which is an expected outcome here.
    _write_errors_to(_log(job, os.getpid()))
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    connection.send("started")
    trainer: Trainer | None = None
    while True:
        method, args, options = connection.recv()
        try:
            if trainer is None:
                job.devices.apply()
                trainer = Trainer(job.model(), job.examples())
                watch = MemoryWatch()
            with watch:
                reply: tuple[str, Any] = "done", getattr(trainer, method)(*args, **options)
        except DoesNotFit as error:
            reply = "does not fit", str(error)
        except Exception:
            reply = "failed", traceback.format_exc()
        connection.send(reply)


def _log(job: Job, pid: int | None) -> Path:
    return job.folder / f"errors-{pid}.txt"


def _write_errors_to(path: Path) -> None:
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 2)
    os.close(log)
