"""Reads how a model trains and how much memory it holds between steps; needs no prediction."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

from keras_gpukit.records.memory import Execution
from keras_gpukit.sensors.allocator import AllocatorSensor


def execution_of(model: Any) -> Execution:
    """Returns how a model's training steps run: "graph", "eager" or "xla"."""
    if model.run_eagerly:
        return "eager"
    return "xla" if getattr(model, "jit_compile", False) else "graph"


def held_between_steps(model: Any) -> tuple[int, int]:
    """Returns the total bytes of a model's variables, and of its optimizer's variables."""
    weights, slots = sizes_of_variables(model)
    return sum(weights), sum(slots)


def sizes_of_variables(model: Any) -> tuple[list[int], list[int]]:
    """Returns the bytes of each variable of a model, and of each variable of its optimizer."""
    slots = getattr(getattr(model, "optimizer", None), "variables", ())
    of_optimizer = {id(each) for each in slots}
    weights = [size_of(each) for each in model.variables if id(each) not in of_optimizer]
    return weights, [size_of(each) for each in slots]


def size_of(variable: Any) -> int:
    """Returns the size of a Keras variable in bytes."""
    return int(prod(variable.shape)) * _item_bytes(variable.dtype)


@functools.cache
def _item_bytes(dtype: Any) -> int:
    import keras
    import tensorflow as tf

    dtype = keras.backend.standardize_dtype(dtype)
    return 0 if dtype == "string" else int(tf.dtypes.as_dtype(dtype).size)


def held_by_others(model: Any, sensor: AllocatorSensor) -> int:
    """Returns the bytes in use on the first device, without the model and its optimizer.

    Args:
        model: A Keras model.
        sensor: Sensor that reads the allocators of the devices.
    """
    if not sensor.devices:
        return 0
    return max((sensor.read()[0].current_bytes or 0) - sum(held_between_steps(model)), 0)
