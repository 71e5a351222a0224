"""Lets several workers add to one variable without losing updates.

Keras 3.12 to 3.15 adds to a variable by reading it and assigning the sum. Another worker may add
in between: the optimizer's iterations and the sums of metrics lost up to a quarter of their
updates. Here the server that holds the variable adds. Metrics that assign values which they have
computed themselves, such as `AUC`, stay approximate. Optimizers already update weights on the
server.

Private name, seen on Keras 3.12 and 3.15: `Variable._value`, the TensorFlow variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def add_on_the_server(is_coordinated: Callable[[Any], bool]) -> None:
    """Makes `assign_add` and `assign_sub` of `keras.Variable` add on the server, within steps.

    Args:
        is_coordinated: Function that returns whether a strategy trains with parameter servers.
            Steps under other strategies are not changed.
    """
    import keras

    for name in ("assign_add", "assign_sub"):
        setattr(keras.Variable, name, _adding(name, getattr(keras.Variable, name), is_coordinated))


def _adding(name: str, original: Any, is_coordinated: Callable[[Any], bool]) -> Any:
    def assign(self: Any, value: Any) -> Any:
        import tensorflow as tf

        within_step = is_coordinated(tf.distribute.get_strategy())
        if not (within_step and isinstance(self._value, tf.Variable)):
            return original(self, value)
        getattr(self._value, name)(tf.cast(value, self._value.dtype))
        return self._value

    return assign
