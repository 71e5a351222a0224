"""Trains in Keras' own `fit`, in a trial process, and measures its rate when it is asked to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

from keras_gpukit.input.wait.calls import ExampleCounter
from keras_gpukit.memory.out_of_memory import is_out_of_memory
from keras_gpukit.monitoring.call_errors import kind_and_message
from keras_gpukit.records.finding import Change, Finding
from keras_gpukit.records.tuning import Promise
from keras_gpukit.rules.gains import promises
from keras_gpukit.tuning.made_changes import NO_END, GivenFit, UnsuitedError, make_changes
from keras_gpukit.tuning.measured_rates import MINIMUM_CALLS, SETTLING
from keras_gpukit.tuning.processes import OwnProcess
from keras_gpukit.tuning.training_changes import TrainingChange, batch_size_of, propose

WATCH_S = 8.0
"""Seconds that the unchanged training runs with a `Monitor`, and twice the most that a changed one
takes to train on as many examples as the comparison of the losses needs."""
COMPARED_SHARE = 0.25
"""Share of the examples that the unchanged training sees meanwhile at which losses are compared."""
LEAST_CALLS = 4
MOST_LOSSES = 1000

Train = Callable[[Callable[[], None]], str | None]
"""Function that trains, and calls what it is given once Keras is imported. If it returns, then why
nothing was measured."""


@dataclass(frozen=True)
class Ready:
    """The first report of a trial process, once it has trained for a moment.

    Attributes:
        first_step_s: Seconds of the first execution, in which TensorFlow traces and compiles.
        losses: Mean loss of the first epoch so far, by the examples so far.
        unit: Unit of rates: "examples/s", or "batches/s" if examples cannot be counted.
    """

    first_step_s: float
    losses: tuple[tuple[float, float], ...]
    unit: str
    lines: tuple[Change, ...] = ()
    proposals: tuple[TrainingChange, ...] = ()
    promises: tuple[Promise, ...] = ()
    findings: tuple[Finding, ...] = ()


class TrialFailedError(Exception):
    """A trial process cannot measure; it sends this error to the process that measures.

    Attributes:
        memory: Whether memory may have run out.
    """

    def __init__(self, reason: str, memory: bool = False) -> None:
        super().__init__(reason)
        self.memory = memory


def started(
    context: BaseContext, train: Train, changes: Sequence[TrainingChange], examples: float | None
) -> OwnProcess:
    """Starts a process that trains with changes, for `serve`."""
    # A script may start processes of its own, which those of a daemon may not.
    return OwnProcess(context, serve, train, tuple(changes), examples, daemon=False)


def serve(
    connection: Connection,
    log: Connection,
    train: Train,
    changes: Sequence[TrainingChange],
    examples: float | None,
) -> None:
    """Runs in a trial process: its first `fit` answers the connection instead, and ends it.

    It sends a `Ready` or a `TrialFailedError`. From then on it answers each number of seconds by a
    rate and the loss so far. Losses are compared after a number of `examples`; without one, this is
    the unchanged training, which is watched by a `Monitor`.
    """
    os.setsid()  # Ctrl-C does not reach it
    for descriptor in (1, 2):
        os.dup2(log.fileno(), descriptor)
    log.close()
    # Two processes train in turn on the same GPU. TensorFlow reads this when it starts its devices.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.update(dict(change.variable.split("=") for change in changes if change.variable))

    def on_fit(given: GivenFit) -> None:
        try:
            given.change(changes)
            MeasuredFit(given, connection).run(examples)
        except UnsuitedError as error:
            connection.send(TrialFailedError(str(error)))
        except BaseException as error:
            connection.send(TrialFailedError(_in_words(error), is_out_of_memory(error)))
        os._exit(0)

    try:
        reason = train(lambda: make_changes(changes, on_fit))
    except SystemExit:
        raise
    except BaseException as error:
        reason = _in_words(error)
    if reason is not None:
        connection.send(TrialFailedError(reason))


def _in_words(error: BaseException) -> str:
    return ": ".join(kind_and_message(error))


class MeasuredFit:
    """A `fit` that trains when it is asked to, and measures its rate.

    The callbacks of the script do not run, since they may write files. Nor does validation.
    """

    def __init__(self, given: GivenFit, connection: Connection) -> None:
        self._given = given
        self._connection = connection
        self._model = given.model
        data = given.arguments["x"]
        size = batch_size_of(given.arguments) or getattr(data, "batch_size", None)
        self._counter = ExampleCounter(self._model, "fit", size if isinstance(size, int) else None)
        self._at_start: Any = ()
        self._first_counts: Any = ()
        self._earlier = self._in_epoch = self._calls = 0
        self._is_counted = True
        self._first_step_s: float | None = None
        self._loss: Any = None

    def run(self, examples: float | None) -> None:
        """Trains for a moment, reports it, and then measures as long as it is asked to."""
        self._connection.send(self._warm_up(examples))
        self._fit(self._rounds())

    def _warm_up(self, examples: float | None) -> Ready:
        read: list[tuple[Any, int, Any]] = []  # unread tensors, so that no step waits for them
        began_s = 0.0

        def train(least_s: float, most_s: float) -> Iterator[None]:
            nonlocal began_s
            began_s = time.perf_counter()
            self._is_counted = self._counted() is not None
            while True:
                if not self._earlier and self._loss is not None and len(read) < MOST_LOSSES:
                    read.append((self._counter.take(), self._in_epoch, self._loss))
                spent_s = time.perf_counter() - began_s
                is_far = examples is None or self._examples() >= examples
                if spent_s >= most_s or (
                    is_far and spent_s >= least_s and self._calls >= LEAST_CALLS
                ):
                    return
                yield

        proposals: tuple[TrainingChange, ...] = ()
        promised: tuple[Promise, ...] = ()
        findings: tuple[Finding, ...] = ()
        if examples is not None:
            self._fit(train(0.0, 2 * WATCH_S))
        else:
            # Imported here, since it imports Keras, which a script does later.
            from keras_gpukit.callbacks.monitor import Monitor

            monitor = Monitor(None, verbose=0, predict_memory=False, capture=False)
            self._fit(train(WATCH_S, 4 * WATCH_S), [monitor])
            step_s = (time.perf_counter() - began_s) / self._calls / self._model.steps_per_execution
            if summary := monitor.summary:
                promised, step_s = promises(summary), summary.step_time_s or step_s
                findings = summary.findings
            gpus = summary.environment.gpus if summary else ()
            proposals = propose(self._model, self._given.arguments, step_s, gpus)
        losses = []
        for counts, calls, loss in read:
            counted = self._counter.between(self._first_counts, counts, calls)
            losses.append((float(counted if self._is_counted and counted else calls), float(loss)))
        return Ready(
            first_step_s=self._first_step_s or 0.0,
            losses=tuple(losses),
            unit="examples/s" if self._is_counted else "batches/s",
            lines=tuple(self._given.lines),
            proposals=proposals,
            promises=promised,
            findings=findings,
        )

    def _rounds(self) -> Iterator[None]:
        while True:
            try:
                seconds = self._connection.recv()
            except (EOFError, OSError):  # the process that measures is gone
                os._exit(0)
            yield from self._train_for(SETTLING * seconds, 1)
            began_s, before = time.perf_counter(), self._examples()
            yield from self._train_for((1 - SETTLING) * seconds, MINIMUM_CALLS)
            rate = (self._examples() - before) / (time.perf_counter() - began_s)
            self._connection.send((rate, None if self._loss is None else float(self._loss)))

    def _train_for(self, seconds: float, at_least: int) -> Iterator[None]:
        """Trains for a duration, and waits for the devices at the end."""
        import tensorflow as tf

        last = self._calls + at_least
        ends_s = time.perf_counter() + seconds
        while self._calls < last or time.perf_counter() < ends_s:
            yield
        tf.test.experimental.sync_devices()

    def _examples(self) -> float:
        """Returns the examples so far, or the batches if examples cannot be counted."""
        counted = self._counted() if self._is_counted else self._in_epoch
        return self._earlier + (counted or 0)

    def _counted(self) -> int | None:
        """Returns the examples of this epoch; None if they cannot be counted."""
        return self._counter.between(self._at_start, self._counter.take(), self._in_epoch)

    def _fit(self, work: Iterator[None], callbacks: Sequence[Any] = ()) -> None:
        """Calls `fit` until the work is over: an iterator that advances after each execution."""
        import keras
        import tensorflow as tf

        model, is_over = self._model, False

        def take_over(logs: Any = None) -> None:
            # The step function, and no hook of a callback: Keras waits for the results of a step
            # if a callback wants them.
            step = model.train_function

            def train(iterator: Any) -> Any:
                nonlocal is_over
                began_s = time.perf_counter()
                logs = step(iterator)
                if self._first_step_s is None:
                    tf.test.experimental.sync_devices()
                    self._first_step_s = time.perf_counter() - began_s
                self._calls += 1
                self._in_epoch += 1
                self._loss = logs.get("loss") if isinstance(logs, dict) else None
                is_over = next(work, work) is work
                model.stop_training = model.stop_training or is_over
                return logs

            model.train_function = train
            put_back.append(step)

        def epoch_begins(epoch: int, logs: Any = None) -> None:
            self._in_epoch, self._at_start = 0, self._counter.take()
            self._first_counts = self._first_counts or self._at_start

        def epoch_ends(epoch: int, logs: Any = None) -> None:
            self._earlier = int(self._examples())
            self._in_epoch, self._at_start = 0, self._counter.take()

        put_back: list[Any] = []
        hooks = keras.callbacks.LambdaCallback(
            on_train_begin=take_over, on_epoch_begin=epoch_begins, on_epoch_end=epoch_ends
        )
        arguments = self._given.arguments | {"epochs": NO_END, "validation_freq": NO_END}
        arguments |= {"initial_epoch": 0, "callbacks": [hooks, *callbacks]}
        if arguments["validation_data"] is not None:
            arguments |= {"validation_data": None, "validation_split": 0.0}
        while not is_over:
            before = self._calls
            try:
                self._given.fit(**arguments)
            finally:
                model.train_function = put_back.pop() if put_back else model.train_function
            if self._calls == before:
                raise UnsuitedError("the data ended, and cannot be read again")
