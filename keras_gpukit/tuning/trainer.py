"""Trains a model with a batch size, to find whether it fits and how fast it is."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from keras_gpukit.memory.model_state import execution_of, held_by_others
from keras_gpukit.memory.oom_message import read_message
from keras_gpukit.memory.out_of_memory import is_out_of_memory
from keras_gpukit.memory.step_memory import StepMemory
from keras_gpukit.records.memory import Execution
from keras_gpukit.records.tuning import Rate
from keras_gpukit.sensors.allocator import AllocatorSensor
from keras_gpukit.sensors.devices import visible_gpus
from keras_gpukit.sensors.host import left_bytes
from keras_gpukit.tuning.examples import Examples
from keras_gpukit.tuning.measured_rates import run_for, summarize
from keras_gpukit.tuning.processes import standard_error_to

# Executions of the train function with full batches, per epoch, and the epochs of the last trials.
# Most sizes that do not fit fail in the first step, but not all.
STEPS, LAST_EPOCHS = 4, 2
# Number of rounds that measure a rate: the first number for slow steps, the second for fast ones.
LEAST_ROUNDS, MOST_ROUNDS = 3, 15
# Share of the host's free memory that a batch may take if the device has no limit.
HOST_SHARE = 0.5
_OF_ALLOCATOR = b"bfc_allocator.cc"
T = TypeVar("T")


class DoesNotFit(Exception):
    """Memory ran out; the message says how this was noticed."""


@dataclass(frozen=True)
class Survey:
    """Properties of a model that are known before the search.

    Attributes:
        execution: How training steps run: "graph", "eager" or "xla".
        limit_bytes: Memory limit of the device; None if unknown.
        predicted: Largest batch size that is predicted to fit into the limit, or without one into
            half of the host's free memory; None if unknown.
    """

    execution: Execution
    limit_bytes: int | None
    predicted: int | None = None


class Trainer:
    """Trains a model to find whether batch sizes fit. The model is changed."""

    def __init__(self, model: Any, examples: Examples, *, filtered: bool = False) -> None:
        self._model = model
        self._examples = examples
        self._filtered = filtered
        # The traces of the user's own training are neither used nor changed.
        model.train_function = None

    def survey(self) -> Survey:
        """Trains with one example, which builds the model, and predicts the largest batch."""
        self.train(1)
        sensor = AllocatorSensor(visible_gpus(), reset_peak=False)
        limit = sensor.limit_bytes(sensor.devices[0]) if sensor.devices else None
        return Survey(execution_of(self._model), limit, self._predict(sensor, limit))

    def train(self, batch_size: int, last: float = 0.0, withheld_bytes: int = 0) -> int | None:
        """Trains with a batch size by calling `fit`; returns the peak of the bytes in use.

        The peak is that of the device's allocator, without withheld memory and without the first
        step. It is None if the allocator has no such count. Without `last`, there is one epoch of
        full batches; else two, each with a smaller batch at its end, of that share of the size.
        """
        rows = batch_size * STEPS * self._model.steps_per_execution
        rows += max(int(last * batch_size), 1) if last else 0

        def fit(sensor: AllocatorSensor) -> None:
            with _withheld(withheld_bytes):
                self._fit(sensor, batch_size, rows, LAST_EPOCHS if last else 1)

        peak_bytes = self._measured(fit)[1]
        return None if peak_bytes is None else peak_bytes - withheld_bytes

    def rate(self, batch_size: int, seconds: float) -> tuple[Rate, int | None]:
        """Returns the rate of training on one batch in memory, in examples/s, and the peak."""
        examples = batch_size * self._model.steps_per_execution

        def measure(sensor: AllocatorSensor) -> Rate:
            # This builds parts that are not built yet, and compiles for this size.
            self._fit(sensor, batch_size, examples)
            sensor.first_step_ended()
            strategy = self._model.distribute_strategy
            batches = strategy.experimental_distribute_dataset(self._examples.one_batch(batch_size))
            step = partial(self._model.train_function, iter(batches))
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

        return self._measured(measure)

    def renew(self) -> None:
        """Does nothing, since TensorFlow does not release the memory of this process."""

    def _fit(self, sensor: AllocatorSensor, batch_size: int, rows: int, epochs: int = 1) -> None:
        import keras

        begun = 0

        def begins(batch: int, logs: Any) -> None:
            nonlocal begun
            # On a GPU, cuDNN tries algorithms in the first step with each size of a batch.
            if begun == 1 or (begun and batch == 0):
                sensor.first_step_ended()
            begun += 1

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*ran out of data")
            dataset = self._examples.batches(batch_size, rows)
            noted = [keras.callbacks.LambdaCallback(on_train_batch_begin=begins)]
            # Keras warns if `shuffle` is True, the default, and the argument is a dataset.
            self._model.fit(dataset, epochs=epochs, verbose=0, shuffle=False, callbacks=noted)

    def _measured(self, work: Callable[[AllocatorSensor], T]) -> tuple[T, int | None]:
        """Calls a function; returns its result and the bytes its steps need (None if unknown)."""
        with without_allocator_log() if self._filtered else nullcontext():
            sensor = AllocatorSensor(visible_gpus())
            try:
                result = work(sensor)
                peaks = [reading.needed_bytes for reading in sensor.read_allocators()]
                return result, peaks[0] if peaks else None
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                message = read_message(str(getattr(error, "message", error)))
            # Raise after the error is released, since its traceback would keep tensors alive.
            if message is None or message.shape is None:
                raise DoesNotFit("the device had too little memory")
            raise DoesNotFit(f"no memory for a tensor of shape {list(message.shape)}")

    def _predict(self, sensor: AllocatorSensor, limit_bytes: int | None) -> int | None:
        try:
            others_bytes = held_by_others(self._model, sensor)
            memory = StepMemory(self._model, self._examples.spec, others_bytes)
            # What loops hold is not counted.
            is_known = not memory.graph.loops
            limit_bytes = limit_bytes or int(HOST_SHARE * left_bytes())
            return memory.largest_batch(limit_bytes) if is_known else None
        except Exception:  # the step cannot be traced outside fit(): search without a prediction
            return None


@contextmanager
def _withheld(count: int) -> Iterator[None]:
    """Allocates bytes on the measured device while the context is active; does nothing for 0."""
    if not count:
        yield
        return
    import tensorflow as tf

    sensor = AllocatorSensor(visible_gpus(), reset_peak=False)
    with tf.device(sensor.devices[0]):
        held = tf.zeros(count, tf.uint8)
    yield
    del held


@contextmanager
def without_allocator_log() -> Iterator[None]:
    """Drops the hundreds of lines that the allocator logs; all lines if a size does not fit.

    The other lines are passed on at the end.
    """
    with tempfile.TemporaryFile() as held:
        is_shown = True
        try:
            with standard_error_to(held.fileno()):
                yield
        except DoesNotFit:
            is_shown = False
            raise
        finally:
            held.seek(0)
            rest = b"".join(line for line in held if _OF_ALLOCATOR not in line)
            if rest and is_shown:
                os.write(2, rest)
