"""Tries batch sizes in separate processes: how the model gets there, and how it is asked."""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, TypeVar

from keras_gpukit.errors import TrialError
from keras_gpukit.records.tuning import Rate
from keras_gpukit.tuning.examples import Examples
from keras_gpukit.tuning.processes import (
    OwnProcess,
    ProcessEndedError,
    ProcessSettings,
    check_importable,
)
from keras_gpukit.tuning.sources import check_one_device
from keras_gpukit.tuning.trainer import DoesNotFit, Survey, Trainer

_FILE = "model.keras"
T = TypeVar("T")


@dataclass(frozen=True)
class TrialJob:
    """All that a trial process needs to train the model. It can be pickled.

    Attributes:
        model: Function that makes or loads the compiled model.
        examples: Examples that batches are made of.
        settings: Settings of TensorFlow and Keras in the process that runs the search.
    """

    model: Callable[[], Any]
    examples: Examples
    settings: ProcessSettings

    @classmethod
    def of(cls, model: Any, examples: Examples) -> TrialJob:
        """Returns a job for a model, or a function that makes one."""
        import keras

        settings = ProcessSettings.of_this_process()
        if isinstance(model, keras.Model):
            return cls(_saved(model), examples, settings)
        check_importable("model", model)
        return cls(partial(_built, model), examples, settings)


def _built(build: Callable[[], Any]) -> Any:
    import keras

    model = build()
    if not isinstance(model, keras.Model) or not model.compiled:
        raise ValueError(
            "`model`, a function, must return a compiled keras.Model. "
            f"Received: {build!r}, which returns {model!r}"
        )
    check_one_device(model, "find the batch size of a replica")
    return model


def _saved(model: Any) -> Callable[[], Any]:
    """Returns a function that loads a model in another process."""
    import keras

    try:
        with tempfile.TemporaryDirectory(prefix="keras_gpukit-") as folder:
            path = Path(folder, _FILE)
            model.save(path)
            saved = path.read_bytes()
        compilation = model.get_compile_config()
        pickle.dumps(compilation)
    except Exception as error:
        raise ValueError(
            "`model` must be one that Keras can save, as trials in processes of their own "
            "load it there; give a function that makes it instead. "
            f"Received: a model named {model.name!r} ({type(error).__name__}: {error})"
        ) from error
    is_of_keras = all(
        getattr(type(model), name) is getattr(keras.Model, name)
        for name in ("compile", "get_compile_config", "compile_from_config")
    )
    return partial(_loaded, saved, compilation if compilation and is_of_keras else None)


def _loaded(saved: bytes, compilation: Any) -> Any:
    """Loads the model with an optimizer that has no slots yet, as in a new program.

    If Keras loads the optimizer, it makes the slots at once. They then take memory before the
    input does, and larger batches fit than in a new program. So the compilation comes apart, unless
    the model's class has methods of its own for compiling or loading.
    """
    from keras.saving import deserialize_keras_object, load_model

    with tempfile.TemporaryDirectory(prefix="keras_gpukit-") as folder:
        path = Path(folder, _FILE)
        path.write_bytes(saved)
        # The caller has just saved this model, so any code in it is the caller's own.
        model = load_model(path, compile=compilation is None, safe_mode=False)
    if compilation is not None:
        model.compile(**deserialize_keras_object(compilation, safe_mode=False))
    if not model.compiled:
        raise ValueError(
            "`model` must be one whose compilation Keras saves with it; give a function that "
            f"makes it instead. Received: a model named {model.name!r}"
        )
    return model


class InOwnProcesses:
    """Does the work of a `Trainer` in separate processes that hold nothing else in memory."""

    def __init__(self, job: TrialJob, context: BaseContext) -> None:
        self._job, self._context = job, context
        self._processes = [_TrialProcess(context, serve, job)]

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
            self._processes.append(_TrialProcess(self._context, serve, self._job))

    def close(self) -> None:
        """Ends the trial processes."""
        for process in self._processes:
            process.close()


class _TrialProcess(OwnProcess):
    """A process that starts at once and loads TensorFlow; the first call loads the model."""

    _started = False

    def call(self, method: Callable[..., T], *args: Any) -> T:
        """Calls a method of `Trainer` in the process, and returns its result.

        Raises `DoesNotFit` if memory ran out, or the process ended as if it had; else `TrialError`.
        """
        try:
            self._started = self._started or self.reply()
            result: T = self.ask((method.__name__, args))
            return result
        except ProcessEndedError as error:
            raise self._failed(error) from None

    def _failed(self, error: ProcessEndedError) -> Exception:
        if not self._started:
            return TrialError(
                "The process of a trial did not start. It imports the script that runs: keep that "
                'in a file, and what it does under if __name__ == "__main__":. '
                f"Received: exit code {error.code}\n{error.log}"
            )
        if error.memory and error.code is not None:
            return DoesNotFit(f"its process ended by {signal.Signals(-error.code).name}")
        return TrialError(f"The process of a trial ended with code {error.code}.\n{error.log}")


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

    connection.send(True)
    trainer: Trainer | None = None
    while True:
        method, args = connection.recv()
        try:
            if trainer is None:
                job.settings.make()
                trainer = Trainer(job.model(), job.examples)
            reply = getattr(trainer, method)(*args)
        except DoesNotFit as error:
            reply = error
        except Exception:
            reply = TrialError(f"A trial failed in its own process:\n{traceback.format_exc()}")
        connection.send(reply)
