"""Keras' counters: how many examples a model has seen, from the one for its mean loss.

Private name, seen on Keras 3.12 to 3.15: `Model._loss_tracker`, a `keras.metrics.Mean` whose
`count` grows by the batch size. Where it is gone, the number is unknown, and so it is with a custom
`train_step` that leaves it alone, or that gives it the loss without a weight, so that it grows by
one a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# The counter is a float32: from here on adding one to it changes nothing.
COUNTER_END = 2.0**24
Counts = tuple[Any, ...]
_STEPS = {"fit": "train_step", "evaluate": "test_step"}


def reader(variable: Any) -> Callable[[], tuple[Any, ...]]:
    """Returns what reads a number that Keras keeps, in a fifth of the time that Keras takes.

    Args:
        variable: A `keras.Variable`.

    Returns:
        A function that returns the number on each replica, as tensors that later updates of the
        variable leave alone. Reading them one by one spares a strategy's reduction, which takes a
        millisecond.
    """
    import tensorflow as tf

    value = variable.value
    places = [(each.handle, each.dtype) for each in getattr(value, "values", None) or (value,)]
    read = tf.raw_ops.ReadVariableOp
    return lambda: tuple(read(resource=handle, dtype=dtype) for handle, dtype in places)


class ExampleCounter:
    """Reads how many examples were seen between two moments.

    Args:
        model: A compiled model.
        phase: "fit" or "evaluate".

    Attributes:
        take: Returns what `between` takes, at a moment while training waits.
    """

    def __init__(self, model: Any, phase: str = "fit") -> None:
        step = getattr(model, _STEPS[phase])
        # One update of the counter for each part, where a batch is trained on in parts.
        self._updates_per_call = model.steps_per_execution * getattr(step, "micro_batches", 1)
        self._is_custom = not step.__module__.startswith("keras.")
        count = getattr(getattr(model, "_loss_tracker", None), "count", None)
        self.take = (lambda: ()) if count is None else reader(count)

    def between(self, before: Counts, after: Counts, calls: int) -> int | None:
        """Returns the examples between two moments, or None where they cannot be known.

        Args:
            before: What `take` returned at the first one,
            after: and at the second one.
            calls: How often the step function was called between them.
        """
        # Under a mirrored strategy each replica counts its own.
        first, last = (sum(float(each) for each in counts) for counts in (before, after))
        if self._is_custom and last - first <= calls * self._updates_per_call * len(after):
            return None  # it grows by one a batch
        # A counter that stands still at 0 is one that the step does not update; at another number
        # it was, and a worker has run out of data before the others.
        return int(last - first) if 0 < last < COUNTER_END and last >= first else None
