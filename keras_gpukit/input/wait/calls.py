"""Counters: the calls of a step function, which the hot path notes, its steps, and the examples.

Keras counts examples for the mean loss; that counter grows by the batch size. Where it does not,
the examples are those of full batches: if Keras has none, and if a custom `train_step` or
`test_step` does not update the counter, or passes it the loss without a weight, so that it grows by
one per batch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from keras_gpukit.frameworks.keras_trainer import loss_count, step_count

NOTHING = object()
StepFunction = Callable[[Any], Any]


class CallTimes:
    """Calls of a step function, in one object that every call reads: a single cache line.

    `times_s` has the entry and exit times of the calls, in turn, from the first call of the window
    on; `before` calls came earlier, which took `inside_s`. The meter must be read once it is
    `due_times` long, or at a call that is entered after `due_s`. The `source` of batches, such as
    an iterator, is kept alive only as long as steps run.
    """

    __slots__ = (
        "before",
        "due_s",
        "due_times",
        "first_step",
        "inside_s",
        "source",
        "steps_per_execution",
        "times_s",
    )

    def __init__(self, steps_per_execution: int = 1, first_step: int = 0) -> None:
        self.steps_per_execution = steps_per_execution
        self.first_step = first_step
        self.source: Any = NOTHING
        self.times_s: list[float] = []
        self.before, self.inside_s = 0, 0.0
        self.drop()

    @property
    def count(self) -> int:
        """Number of all calls."""
        return self.before + len(self.times_s) // 2

    @property
    def steps(self) -> int:
        """Number of steps that ran, if data never ended within a call."""
        return self.count * self.steps_per_execution

    @property
    def step(self) -> int:
        """Global step."""
        return self.first_step + self.steps

    def drop(self, *, but: int = 0) -> None:
        """Removes all calls but the last ones from the buffer; the meter need not be read."""
        if len(self.times_s) % 2:
            self.times_s.pop()  # an interrupt came between the two times of a call
        end = max(len(self.times_s) - 2 * but, 0)
        gone_s, kept_s = self.times_s[:end], self.times_s[end:]
        before = self.before + end // 2
        inside_s = self.inside_s + sum(gone_s[1::2]) - sum(gone_s[::2])
        # At once, as no function is called in between: the sampling thread counts the calls.
        self.times_s, self.before, self.inside_s = kept_s, before, inside_s
        self.due_times: int = sys.maxsize
        self.due_s: float = math.inf


def steps_of_fits(model: Any, calls: CallTimes, pipelines: int) -> int:
    """Returns the number of steps in all calls of the training step since the first one noted.

    Each pipeline's data may have ended within a call, which then has fewer steps. The optimizer's
    counter shows how many fewer, unless it counts something else.
    """
    counted = steps_so_far(model) - calls.first_step
    fits = 0 <= calls.steps - counted <= (calls.steps_per_execution - 1) * pipelines
    return counted if fits else calls.steps


def steps_of_passes(calls: CallTimes, batches: int | None) -> int:
    """Returns the number of steps in all calls of the step function, over passes of known data.

    The last call of each pass has fewer steps if `batches` is no multiple. If that is unknown,
    every call counts as full.
    """
    if not batches:
        return calls.steps
    passes, others = divmod(calls.count, math.ceil(batches / calls.steps_per_execution))
    return passes * batches + others * calls.steps_per_execution


def steps_so_far(model: Any) -> int:
    """Returns the number of training steps of a model.

    If gradients are accumulated, there are fewer updates of its weights than steps.
    """
    optimizer, micro_steps = _optimizer(model), accumulated(model)
    counter = step_count(optimizer) if micro_steps else None
    if counter is not None:
        return _as_int(counter)
    return _as_int(getattr(optimizer, "iterations", None)) * (micro_steps or 1)


def accumulated(model: Any) -> int:
    """Returns the number of steps whose gradients are accumulated; 0 if each step is an update."""
    return int(getattr(_optimizer(model), "gradient_accumulation_steps", None) or 0)


def _optimizer(model: Any) -> Any:
    optimizer = getattr(model, "optimizer", None)
    # A loss scale optimizer passes steps on to its inner optimizer, which counts them.
    return getattr(optimizer, "inner_optimizer", optimizer)


def _as_int(counter: Any) -> int:
    import keras

    if isinstance(counter, keras.Variable):
        return int(reader(counter)()[0])  # each replica counts all steps
    return 0 if counter is None else int(keras.ops.convert_to_numpy(counter))


def is_end_of_data(error: BaseException) -> bool:
    """Whether a call raised an exception because the data have ended."""
    import tensorflow as tf

    return isinstance(error, (StopIteration, tf.errors.OutOfRangeError))


# The counter is a float32: from this value on, adding one changes nothing.
COUNTER_END = 2.0**24
Counts = tuple[Any, ...]
_STEPS = {"fit": "train_step", "evaluate": "test_step"}


def reader(variable: Any) -> Callable[[], tuple[Any, ...]]:
    """Returns a function that reads a Keras variable, in a fifth of the time that Keras takes.

    It returns the value on each replica, as tensors that later updates do not change. A strategy's
    reduction would take a millisecond.
    """
    import tensorflow as tf

    value = variable.value
    places = [(copy.handle, copy.dtype) for copy in getattr(value, "values", None) or (value,)]
    read = tf.raw_ops.ReadVariableOp
    return lambda: tuple(read(resource=handle, dtype=dtype) for handle, dtype in places)


class ExampleCounter:
    """Counts the examples that a model sees between two readings of Keras' counter.

    `take` reads the counter, for `between`, while no step runs. The last batch of an epoch may be
    smaller than `batch_size`.
    """

    def __init__(self, model: Any, phase: str = "fit", batch_size: int | None = None) -> None:
        step = getattr(model, _STEPS[phase])
        # If a batch is trained on in parts, each part updates the counter once.
        self._updates_per_call = model.steps_per_execution * getattr(step, "micro_batches", 1)
        self._is_custom = not step.__module__.startswith("keras.")
        count = loss_count(model)
        strategy = getattr(model, "distribute_strategy", None)
        alone = getattr(strategy, "num_replicas_in_sync", 1) == 1
        self._per_call = batch_size * model.steps_per_execution if batch_size and alone else None
        self.take = (lambda: ()) if count is None else reader(count)

    def between(
        self, before: Counts, after: Counts, calls: int, *, full: bool = True
    ) -> int | None:
        """Returns the number of examples between two readings; None if unknown.

        Batches are `full` if none was the last of an epoch.
        """
        # Under a mirrored strategy, each replica counts its own examples.
        first, last = (sum(float(count) for count in counts) for counts in (before, after))
        counted = last - first
        # A counter that stays at 0 is not updated by the step. One that stays at another value was
        # updated before: this worker has run out of data before the others.
        is_known = 0 < last < COUNTER_END and counted >= 0
        if self._is_custom and counted <= calls * self._updates_per_call * len(after):
            is_known = False  # the counter grows by one per batch
        if is_known:
            return int(counted)
        return calls * self._per_call if self._per_call is not None and full else None
