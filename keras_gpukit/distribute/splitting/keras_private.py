"""Private names of Keras' optimizers, seen on Keras 3.12 to 3.15.

Without them a split model computes the same; only more passes between its devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

_BASE = "BaseOptimizer"
_COUNT = "_iterations"
# What Keras' optimizers for TensorFlow do for tf.distribute, and what they inherit without it.
_DISTRIBUTED = (
    "_backend_update_step",
    "_apply_weight_decay",
    "_update_model_variables_moving_average",
    "_overwrite_model_variables_with_average_value",
    "_backend_increment_gradient_accumulators",
    "_backend_reset_gradient_accumulators",
)


def leave_distribution_out(optimizer: Any) -> None:
    """Gives an optimizer the plain methods that Keras replaces for tf.distribute.

    They compute the same with one replica. Those for tf.distribute pass the gradients of all
    variables through one operation, and so one device, and drop the choice of devices around them.
    """
    plain = next((each for each in type(optimizer).__mro__ if each.__name__ == _BASE), None)
    for name in _DISTRIBUTED:
        method = getattr(plain, name, None)
        if method is not None:
            setattr(optimizer, name, MethodType(method, optimizer))


def step_count(optimizer: Any) -> Any:
    """Returns the variable that counts the applications; None where Keras has another."""
    return vars(optimizer).get(_COUNT)


@contextmanager
def counting_by(optimizer: Any, count: Any) -> Iterator[None]:
    """Has an optimizer read its count from a tensor, where it is not None."""
    attributes = vars(optimizer)  # Keras would track what is set in the usual way
    if count is None:
        yield
        return
    variable = attributes[_COUNT]
    attributes[_COUNT] = count
    try:
        yield
    finally:
        attributes[_COUNT] = variable
