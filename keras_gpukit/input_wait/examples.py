"""How many examples a model has seen, from the counter that Keras keeps for its mean loss.

Private name, seen on Keras 3.12 to 3.15: `Model._loss_tracker`, a `keras.metrics.Mean` whose
`count` grows by the batch size. Where it is gone, or a custom `train_step` leaves it alone, the
number is unknown.
"""

from __future__ import annotations

from typing import Any

# The counter is a float32: from here on adding one to it changes nothing.
COUNTER_END = 2.0**24


class ExampleCounter:
    """Reads how many examples were seen since the last reading.

    Args:
        model: A compiled model.
    """

    def __init__(self, model: Any) -> None:
        import tensorflow as tf

        self._read_variable = tf.raw_ops.ReadVariableOp
        count = getattr(getattr(model, "_loss_tracker", None), "count", None)
        value = getattr(count, "value", None)
        # Under a mirrored strategy each replica counts its own; reading them one by one spares
        # the strategy's reduction, which takes a millisecond.
        self._counts = getattr(value, "values", None) or ((value,) if value is not None else ())
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
        return float(sum(self._value(count) for count in self._counts))

    def _value(self, count: Any) -> Any:
        # A third of what `count.numpy()` takes.
        return self._read_variable(resource=count.handle, dtype=count.dtype).numpy()
