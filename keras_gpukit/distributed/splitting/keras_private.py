"""Private names of Keras' optimizers, seen on Keras 3.12 to 3.15.

Without them a split model computes the same, but sends more data between its devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

_BASE = "BaseOptimizer"
_COUNT = "_iterations"
# Methods that Keras' TensorFlow optimizers override for tf.distribute; the base class has the plain
# ones.
_DISTRIBUTED = (
    "_backend_update_step",
    "_apply_weight_decay",
    "_update_model_variables_moving_average",
    "_overwrite_model_variables_with_average_value",
    "_backend_increment_gradient_accumulators",
    "_backend_reset_gradient_accumulators",
)


def leave_distribution_out(optimizer: Any) -> None:
    """Gives an optimizer the plain methods that Keras overrides for tf.distribute.

    With one replica, both compute the same. The methods for tf.distribute pass the gradients of
    all variables through one operation, and so through one device. They also ignore the device
    scopes around them.
    """
    plain = next((each for each in type(optimizer).__mro__ if each.__name__ == _BASE), None)
    for name in _DISTRIBUTED:
        method = getattr(plain, name, None)
        if method is not None:
            setattr(optimizer, name, MethodType(method, optimizer))


def step_count(optimizer: Any) -> Any:
    """Returns the variable that counts the updates; None if this Keras stores it elsewhere."""
    return vars(optimizer).get(_COUNT)


@contextmanager
def counting_by(optimizer: Any, count: Any) -> Iterator[None]:
    """Makes an optimizer read its step count from a tensor; does nothing if `count` is None."""
    attributes = vars(optimizer)  # Keras would track an attribute that is set in the usual way
    if count is None:
        yield
        return
    variable = attributes[_COUNT]
    attributes[_COUNT] = count
    try:
        yield
    finally:
        attributes[_COUNT] = variable
