"""Keras' trainer: its step function, epochs, adapters of data, counters and optimizers."""

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

# Methods of the trainer.
BUILD = "_maybe_symbolic_build"
MAKE_STEPS = "_make_function"
CONVERT_OPTIONALS = "_autoconvert_optionals"


def trainer_module() -> Any:
    """Returns Keras' module of the TensorFlow trainer; None if this Keras has no such module.

    Seen up to Keras 3.16. Repairs replace methods of its trainer, its `reduce_per_replica` and its
    `TFEpochIterator`. A repair whose name is missing is not made, and a warning says so.
    """
    try:
        from keras.src.backend.tensorflow import trainer
    except ImportError:
        return None
    return trainer


def is_made_by_keras(step_function: Any) -> bool:
    """Whether a step function is the one that Keras makes, not wrapped by other code."""
    made_in = getattr(step_function, "__module__", "")
    return made_in == "keras.src.backend.tensorflow.trainer" and not hasattr(
        step_function, "__wrapped__"
    )


def epoch_dataset(epoch_iterator: Any) -> Any:
    """Returns the dataset, distributed or not, that Keras iterates over; None if unknown."""
    return getattr(epoch_iterator, "_distributed_dataset", None)


def replace_epoch_dataset(epoch_iterator: Any, dataset: Any) -> None:
    """Makes Keras take its iterators from another dataset."""
    epoch_iterator._distributed_dataset = dataset


def strategy_of_epochs(epoch_iterator: Any) -> Any:
    """Returns the strategy over which Keras distributes a dataset."""
    return epoch_iterator._distribute_strategy


def dataset_in(adapter: Any) -> Any | None:
    """Returns the dataset of tf.data or Grain that an adapter got; None without, or if unknown."""
    return getattr(adapter, "_dataset", None)


def loader_in(adapter: Any) -> Any | None:
    """Returns the `DataLoader` of PyTorch that an adapter got; None without, or if unknown."""
    return getattr(adapter, "_dataloader", None)


def first_batches_in(adapter: Any) -> list[Any]:
    """Returns the batches of a generator that Keras took for their types; none if unknown."""
    return getattr(adapter, "_first_batches", None) or []


def output_signature(adapter: Any) -> Any:
    """Returns the types and shapes of the batches that an adapter of a `PyDataset` makes."""
    return adapter._output_signature


def first_epoch(model: Any) -> int:
    """Returns the epoch at which a model's `fit` begins; 0 if unknown."""
    return getattr(model, "_initial_epoch", None) or 0


def start_at_epoch(model: Any, epoch: int) -> None:
    """Makes a model's `fit` begin at an epoch."""
    model._initial_epoch = epoch


def held_by(variable: Any) -> Any:
    """Returns the TensorFlow variable in one of Keras, also where `value` would read it."""
    return variable._value


def loss_count(model: Any) -> Any | None:
    """Returns the variable that counts the examples of a model's mean loss; None if unknown."""
    return getattr(getattr(model, "_loss_tracker", None), "count", None)


def step_count(optimizer: Any) -> Any | None:
    """Returns the variable that counts the steps of an optimizer.

    It counts steps even if gradients are accumulated, and `iterations` counts updates. None without
    it: steps are computed from updates.
    """
    return getattr(optimizer, _COUNT, None)


@contextmanager
def counting_by(optimizer: Any, count: Any) -> Iterator[None]:
    """Makes an optimizer read its step count from a tensor; does nothing if `count` is None.

    Without it a split model computes the same, but sends more data between its devices.
    """
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


def leave_distribution_out(optimizer: Any) -> None:
    """Gives an optimizer the plain methods that Keras overrides for tf.distribute.

    With one replica, both compute the same. The methods for tf.distribute pass the gradients of
    all variables through one operation, and so through one device. They also ignore the device
    scopes around them. Without them a split model computes the same, but sends more data.
    """
    plain = next((base for base in type(optimizer).__mro__ if base.__name__ == _BASE), None)
    for name in _DISTRIBUTED:
        method = getattr(plain, name, None)
        if method is not None:
            setattr(optimizer, name, MethodType(method, optimizer))
