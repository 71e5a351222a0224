"""Processes of trials: what runs in them, and how the process that measures talks to them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

from keras_gpukit.errors import TrialError, one_line
from keras_gpukit.monitoring.call_errors import kind_and_message
from keras_gpukit.tuning.made_changes import make_changes
from keras_gpukit.tuning.measured_fit import Ready, TrialFailedError, measure
from keras_gpukit.tuning.processes import OF_MEMORY, OwnProcess, ProcessSettings
from keras_gpukit.tuning.training_changes import TrainingChange

ROUND_S = 0.5
"""Duration of one measurement."""
_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
LEAST_WAIT_S = 60.0


Start = Callable[[Sequence[TrainingChange], float | None], OwnProcess]
"""Function that starts a process with changes. The number of examples at which losses are compared
is None for the unchanged training."""


class TrainingProcess:
    """A process that trains with changes, and measures its rate.

    Args:
        process: The process.
        until_s: Time, by `time.monotonic`, until which its `fit` must have started.

    Raises:
        TrialFailedError: If it does not train.
    """

    def __init__(self, process: OwnProcess, until_s: float) -> None:
        self._process = process
        self.is_finite = True
        try:
            wait_s = max(until_s - time.monotonic(), LEAST_WAIT_S)
            if not process.connection.poll(wait_s):
                raise TrialFailedError(f"its first fit() did not start within {wait_s:.0f} s")
            self.ready: Ready = self._reply()
        except BaseException:
            self.close()
            raise

    def rate(self) -> float:
        """Trains for a moment, and returns the rate.

        Raises:
            TrialFailedError: If training failed.
        """
        with suppress(OSError):  # it has ended: its last words are read below
            self._process.connection.send(ROUND_S)
        rate, loss = self._reply()
        self.is_finite = self.is_finite and (loss is None or abs(loss) < float("inf"))
        return float(rate)

    def close(self) -> None:
        """Ends the process."""
        self._process.close()

    def _reply(self) -> Any:
        try:
            reply = self._process.connection.recv()
        except (EOFError, OSError):
            code, log = self._process.ended()
            is_memory = code is not None and -code in OF_MEMORY
            last = next(reversed(log.strip().splitlines()), "")
            ended = f"its process ended with code {code}: {one_line(last)}"
            reply = TrialFailedError(ended, is_memory)
        if isinstance(reply, TrialFailedError):
            raise reply
        return reply


def prepare(log: Connection, changes: Sequence[TrainingChange]) -> None:
    """Prepares a trial process: its output goes to the log, and Ctrl-C does not reach it.

    Sets the environment variables of changes, which TensorFlow reads when it starts its devices.
    """
    os.setsid()
    for descriptor in (1, 2):
        os.dup2(log.fileno(), descriptor)
    log.close()
    # Two processes train in turn on the same GPU.
    os.environ.setdefault(_GROWTH, "true")
    os.environ.update(dict(each.variable.split("=") for each in changes if each.variable))


@dataclass(frozen=True)
class Functions:
    """The functions that `tune` got, for a process that calls them."""

    build: Callable[[], Any]
    data: Any
    batch_size: int | None
    settings: ProcessSettings

    def start(self, context: BaseContext) -> Start:
        """Returns what starts a process that calls the functions."""
        return lambda changes, examples: OwnProcess(
            context, serve, self, tuple(changes), examples, daemon=False
        )


def serve(
    connection: Connection,
    log: Connection,
    functions: Functions,
    changes: Sequence[TrainingChange],
    examples: float | None,
) -> None:
    """Runs in the trial process: builds the model and trains it."""
    prepare(log, changes)
    try:
        import keras

        functions.settings.make()
        make_changes(changes, measure(connection, changes, examples))
        model = functions.build()
        if not isinstance(model, keras.Model) or not model.compiled:
            raise TrialError(f"`build` must return a compiled keras.Model. It returns {model!r}")
        data = functions.data() if callable(functions.data) else functions.data
        x, y, weights, *_ = (*data, None, None) if isinstance(data, tuple) else (data, None, None)
        model.fit(x, y, sample_weight=weights, batch_size=functions.batch_size, verbose=0)
    except Exception as error:
        kind, message = kind_and_message(error)
        connection.send(TrialFailedError(f"{kind}: {message}"))
