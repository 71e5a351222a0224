"""Keeps an optimizer's slots and updates on the devices of the variables."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from keras_gpukit.distributed.splitting import keras_private


def place_updates(optimizer: Any, variables: Sequence[Any]) -> None:
    """Creates the slots now, each on the device of its variable, where the updates run as well.

    Each step sends the learning rate and the step count to each device once. The gradients stay
    where they are.
    """
    import keras
    import tensorflow as tf

    if not optimizer.built:
        optimizer.build(variables)
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # loss scaling wraps the optimizer
    keras_private.leave_distribution_out(inner)
    sender = _Sender(inner)
    apply, update = inner.apply, inner.update_step

    @functools.wraps(apply)
    def apply_afresh(*args: Any, **kwargs: Any) -> Any:
        sender.forget()  # a step may apply gradients several times, each with another count
        try:
            return apply(*args, **kwargs)
        finally:
            sender.forget()

    @functools.wraps(update)
    def update_step(gradient: Any, variable: Any, learning_rate: Any) -> Any:
        tensor = variable.value if isinstance(variable, keras.Variable) else variable
        if tf.executing_eagerly():
            with tf.device(tensor.device):
                return update(gradient, variable, learning_rate)
        rate, count = sender.send(learning_rate, tensor.device)
        with tf.device(tensor.device), keras_private.counting_by(inner, count):
            return update(gradient, variable, rate)

    inner.apply, inner.update_step = apply_afresh, update_step


class _Sender:
    """Reads the learning rate and the step count once, and sends them to each device once."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._read: dict[int, tuple[Any, Any]] = {}
        self._sent: dict[tuple[int, str], tuple[Any, Any]] = {}

    def forget(self) -> None:
        self._read.clear()
        self._sent.clear()

    def send(self, learning_rate: Any, device: str) -> tuple[Any, Any]:
        """Returns the rate and the count on the device; the count is None if it cannot be read."""
        import keras
        import tensorflow as tf

        graph = id(tf.compat.v1.get_default_graph())  # a branch of a condition has its own graph
        if graph not in self._read:
            count = keras_private.step_count(self._optimizer)
            self._read[graph] = (
                keras.ops.convert_to_tensor(learning_rate),
                None if count is None else keras.ops.convert_to_tensor(count),
            )
        if (graph, device) not in self._sent:
            rate, count = self._read[graph]
            with tf.device(device):
                copies = (tf.identity(rate), None if count is None else tf.identity(count))
            self._sent[graph, device] = copies
        return self._sent[graph, device]


def copy_optimizer_state(source: Any, target: Any) -> None:
    """Copies iterations, learning rate and slots; does nothing if `source` is not built."""
    if source is None or not source.built:
        return
    for old, new in zip(source.variables, target.variables, strict=True):
        new.assign(old)
