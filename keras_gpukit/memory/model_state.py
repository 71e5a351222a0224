"""Reads how a model trains and how much memory it holds between steps; needs no prediction."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

from keras_gpukit.frameworks.tf_functions import used_variables
from keras_gpukit.records.memory import Execution
from keras_gpukit.sensors.allocator import AllocatorSensor


def execution_of(model: Any) -> Execution:
    """Returns how a model's training steps run: "graph", "eager" or "xla"."""
    if model.run_eagerly:
        return "eager"
    return "xla" if getattr(model, "jit_compile", False) else "graph"


def held_between_steps(model: Any) -> tuple[int, int]:
    """Returns the total bytes of the variables of models, and of those of optimizers.

    Variables that only the model's `train_step` refers to count once `fit` has traced it.
    """
    # On several replicas, a traced step uses the variables of each.
    strategy = getattr(model, "distribute_strategy", None)
    alone = getattr(strategy, "num_replicas_in_sync", 1) == 1
    used = used_variables(getattr(model, "train_function", None)) if alone else ()
    weights, slots = sizes_of_variables(model, used)
    return sum(weights), sum(slots)


def sizes_of_variables(model: Any, used: Sequence[Any] = ()) -> tuple[list[int], list[int]]:
    """Returns the bytes of each variable of models, and of each variable of optimizers.

    Of the variables that a training step uses, those that the model does not refer to belong to
    another model if they are trainable, otherwise to an optimizer.
    """
    slots = {id(slot): slot for optimizer in optimizers_of(model) for slot in optimizer.variables}
    of_model = (
        *model.variables,
        *(variable for metric in model.metrics for variable in metric.variables),
    )
    weights = {id(variable): variable for variable in of_model if id(variable) not in slots}
    known = (
        {id(variable.value) for variable in (*weights.values(), *slots.values())} if used else set()
    )
    for variable in used:
        if id(variable) not in known:
            (weights if variable.trainable else slots)[id(variable)] = variable
    return [size_of(weight) for weight in weights.values()], [
        size_of(slot) for slot in slots.values()
    ]


def optimizers_of(model: Any) -> list[Any]:
    """Returns the optimizers that are attributes of a model, with that of `compile`."""
    import keras

    return [part for part in vars(model).values() if isinstance(part, keras.optimizers.Optimizer)]


def size_of(variable: Any) -> int:
    """Returns the size of a variable of Keras or TensorFlow in bytes."""
    return int(prod(variable.shape)) * _item_bytes(variable.dtype)


@functools.cache
def _item_bytes(dtype: Any) -> int:
    import keras
    import tensorflow as tf

    dtype = keras.backend.standardize_dtype(dtype)
    return 0 if dtype == "string" else int(tf.dtypes.as_dtype(dtype).size)


def held_by_others(model: Any, sensor: AllocatorSensor) -> int:
    """Returns the bytes in use on the first device, without the model and its optimizer."""
    if not sensor.devices:
        return 0
    return max((sensor.read_allocators()[0].current_bytes or 0) - sum(held_between_steps(model)), 0)
