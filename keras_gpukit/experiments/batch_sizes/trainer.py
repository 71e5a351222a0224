"""Trains a model with a batch size, to see whether it fits and how fast it is."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from keras_gpukit.experiments.batch_sizes.examples import Examples
from keras_gpukit.measuring.intervals import summarize
from keras_gpukit.measuring.rates import run_for
from keras_gpukit.memory.model_state import execution_of, held_by_others
from keras_gpukit.memory.oom_message import read_message
from keras_gpukit.memory.out_of_memory import is_out_of_memory
from keras_gpukit.memory.step_memory import StepMemory
from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.records.memory import Execution
from keras_gpukit.sensors.allocator import AllocatorSensor
from keras_gpukit.sensors.devices import visible_gpus

# Of a rate's rounds: with the first number slow steps are measured, with the second fast ones.
LEAST_ROUNDS, MOST_ROUNDS = 3, 15
# Memory is predicted for doubled batch sizes from the first on, until the limit is passed.
FIRST_PREDICTED, LAST_PREDICTED = 16, 2**16
T = TypeVar("T")


class DoesNotFit(Exception):
    """Memory ran out; the message says how that showed."""


@dataclass(frozen=True)
class Work:
    """What a trial trains.

    Attributes:
        steps: Executions with a full batch in an epoch.
        epochs: How many.
        last: Size of a smaller batch that each epoch ends with, as a share; 0 for none.
        withheld_bytes: Memory of the device that training has to do without.
    """

    steps: int
    epochs: int = 1
    last: float = 0.0
    withheld_bytes: int = 0

    @property
    def executions(self) -> int:
        """Those of all epochs."""
        return self.epochs * (self.steps + (self.last > 0))


@dataclass(frozen=True)
class Trained:
    """A trial that came to its end.

    Attributes:
        peak_bytes: The most that the device's allocator had in use; None where none keeps count.
        step_s: Seconds of an execution after the first; None where there was only one.
    """

    peak_bytes: int | None
    step_s: float | None = None


@dataclass(frozen=True)
class Survey:
    """What is known of a model before the search.

    Attributes:
        execution: How its steps run.
        limit_bytes: What the device gives; None where that is unknown.
        predicted: Batch sizes with their predicted peaks in bytes; empty where a prediction would
            leave something out.
        first_step_s: Seconds of the first step, most of which tracing it takes.
        predicting_s: Seconds of the prediction.
    """

    execution: Execution
    limit_bytes: int | None
    predicted: tuple[tuple[int, int], ...] = ()
    first_step_s: float = 0.0
    predicting_s: float = 0.0


class Trainer:
    """Trains a model, which it changes.

    Args:
        model: A compiled model.
        examples: What batches are made of.
    """

    def __init__(self, model: Any, examples: Examples) -> None:
        self._model = model
        self._examples = examples
        # The traces of the user's own training are neither used nor changed.
        model.train_function = None

    def survey(self) -> Survey:
        """Trains one step with one example, which builds the model, and predicts the others.

        Raises:
            DoesNotFit: If not even that fits.
        """
        began = time.perf_counter()
        self.train(1, Work(steps=1))
        trained = time.perf_counter()
        sensor = AllocatorSensor(visible_gpus(), reset_peak=False)
        limit = sensor.limit_bytes(sensor.devices[0]) if sensor.devices else None
        predicted = self._predict(sensor, limit)
        return Survey(
            execution_of(self._model),
            limit,
            predicted,
            first_step_s=trained - began,
            predicting_s=time.perf_counter() - trained,
        )

    def train(self, batch_size: int, work: Work) -> Trained:
        """Trains by `fit`.

        Args:
            batch_size: Examples in a batch.
            work: How much.

        Returns:
            What it took.

        Raises:
            DoesNotFit: If memory ran out.
        """
        rows = batch_size * work.steps * self._model.steps_per_execution
        rows += max(int(work.last * batch_size), 1) if work.last else 0

        def fit() -> float | None:
            with _withheld(work.withheld_bytes):
                return self._fit(batch_size, rows, work.epochs)

        step_s, peak_bytes = _measured(fit)
        return Trained(None if peak_bytes is None else peak_bytes - work.withheld_bytes, step_s)

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """Measures how fast the model trains on one batch that is in memory.

        Args:
            batch_size: Examples in a batch.
            seconds: How long; slow steps take longer.

        Returns:
            Examples per second, and the most that the allocator had in use.

        Raises:
            DoesNotFit: If memory ran out.
        """
        examples = batch_size * self._model.steps_per_execution

        def measure() -> Rate:
            # Builds what is not built yet, and compiles for this size.
            self._fit(batch_size, examples)
            strategy = self._model.distribute_strategy
            batches = strategy.experimental_distribute_dataset(self._examples.one_batch(batch_size))
            iterator = iter(batches)

            def step() -> Any:
                return self._model.train_function(iterator)

            run_for(step, seconds / MOST_ROUNDS)
            rates: list[float] = []
            end = time.perf_counter() + seconds
            while len(rates) < LEAST_ROUNDS or (
                len(rates) < MOST_ROUNDS and time.perf_counter() < end
            ):
                began = time.perf_counter()
                calls = run_for(step, seconds / MOST_ROUNDS)
                rates.append(calls * examples / (time.perf_counter() - began))
            return summarize(rates, "examples/s")

        return _measured(measure)

    def _fit(self, batch_size: int, rows: int, epochs: int = 1) -> float | None:
        """Trains, and returns the seconds of an execution after the first."""
        import keras

        ends: list[float] = []
        clock = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: ends.append(time.perf_counter())
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*ran out of data")
            dataset = self._examples.batches(batch_size, rows)
            # Keras warns of `shuffle`, True by default, where it gets a dataset.
            self._model.fit(dataset, epochs=epochs, verbose=0, shuffle=False, callbacks=[clock])
        return (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else None

    def _predict(
        self, sensor: AllocatorSensor, limit_bytes: int | None
    ) -> tuple[tuple[int, int], ...]:
        peaks: list[tuple[int, int]] = []
        try:
            other_bytes = held_by_others(self._model, sensor)
            memory = StepMemory(self._model, self._examples.spec, other_bytes)
            size = FIRST_PREDICTED
            while memory.graph.scales and size <= LAST_PREDICTED:
                prediction = memory.predict(size)
                if prediction.peak_bytes is None or prediction.is_lower_bound:
                    return ()
                peaks.append((size, prediction.peak_bytes))
                if len(peaks) > 1 and limit_bytes and prediction.peak_bytes > limit_bytes:
                    break
                size *= 2
        except Exception:  # a step that cannot be traced apart from fit(): trials do without
            return ()
        return tuple(peaks)


@contextmanager
def _withheld(count: int) -> Iterator[None]:
    """Holds bytes of the device whose memory is measured, which there is if any are to be held."""
    if not count:
        yield
        return
    import tensorflow as tf

    sensor = AllocatorSensor(visible_gpus(), reset_peak=False)
    with tf.device(sensor.devices[0]):
        held = tf.zeros(count, tf.uint8)
    yield
    del held


def _measured(work: Callable[[], T]) -> tuple[T, int | None]:
    """Does something, and returns the allocator's peak in it."""
    sensor = AllocatorSensor(visible_gpus())
    try:
        result = work()
        peaks = [each.peak_bytes for each in sensor.read()]
        return result, peaks[0] if peaks else None
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        note = _note(error)
    # Here the error is gone, with its traceback, which would keep tensors alive.
    raise DoesNotFit(note)


def _note(error: BaseException) -> str:
    message = read_message(str(getattr(error, "message", error)))
    if message is None or message.shape is None:
        return "the device had too little memory"
    return f"no memory for a tensor of shape {list(message.shape)}"
