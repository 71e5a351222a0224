"""Keras' counters: how many examples a model has seen, from the one for its mean loss.

Private name, seen on Keras 3.12 to 3.15: `Model._loss_tracker`, a `keras.metrics.Mean` whose
`count` grows by the batch size. Where it is gone, or a custom `train_step` leaves it alone, the
number is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# The counter is a float32: from here on adding one to it changes nothing.
COUNTER_END = 2.0**24


def reader(variable: Any) -> Callable[[], tuple[float, ...]]:
    """Returns what reads a number that Keras keeps, in a fifth of the time that Keras takes.

    Args:
        variable: A `keras.Variable`.

    Returns:
        A function that returns the number on each replica. Reading them one by one spares a
        strategy's reduction, which takes a millisecond.
    """
    import tensorflow as tf

    value = variable.value
    places = [(each.handle, each.dtype) for each in getattr(value, "values", None) or (value,)]
    read = tf.raw_ops.ReadVariableOp
    return lambda: tuple(
        float(read(resource=handle, dtype=dtype).numpy()) for handle, dtype in places
    )


class ExampleCounter:
    """Reads how many examples were seen since the last reading.

    Args:
        model: A compiled model.
    """

    def __init__(self, model: Any) -> None:
        count = getattr(getattr(model, "_loss_tracker", None), "count", None)
        self._counts = (lambda: ()) if count is None else reader(count)
        self._before = 0.0

    def start(self) -> None:
        """Forgets what came before; called where a stretch begins."""
        self._before = self._read()

    def read(self) -> int | None:
        """Returns the examples since the last call, or None where they cannot be known."""
        before, self._before = self._before, self._read()
        seen = self._before - before
        return int(seen) if seen > 0 and self._before < COUNTER_END else None

    def _read(self) -> float:
        # Under a mirrored strategy each replica counts its own.
        return sum(self._counts())
