"""Counts the steps of a model, over all its fits."""

from __future__ import annotations

import math
from typing import Any

from keras_gpukit.frameworks.keras_trainer import step_count
from keras_gpukit.input.wait.calls import reader


class FitCount:
    """Counts the steps of a model since this object was made."""

    def __init__(self, model: Any, first_step: int) -> None:
        self._model = model
        self._first_step = first_step

    def steps(self, calls: int, steps_per_execution: int, pipelines: int) -> int:
        """Returns the number of steps in all calls of the step function."""
        # Each pipeline's data may have ended within a call, which then has fewer steps. The
        # optimizer's counter shows how many fewer, unless it counts something else.
        counted = steps_so_far(self._model) - self._first_step
        fits = 0 <= calls * steps_per_execution - counted <= (steps_per_execution - 1) * pipelines
        return counted if fits else calls * steps_per_execution


def steps_of_passes(calls: int, steps_per_execution: int, batches: int | None) -> int:
    """Returns the number of steps in all calls of the step function, over passes of known data.

    The last call of each pass has fewer steps if `batches` is no multiple. If that is unknown,
    every call counts as full.
    """
    if not batches:
        return calls * steps_per_execution
    passes, others = divmod(calls, math.ceil(batches / steps_per_execution))
    return passes * batches + others * steps_per_execution


def updates_so_far(model: Any) -> int:
    """Returns the number of updates of a model's weights.

    If gradients are accumulated, there are fewer updates than steps.
    """
    return _as_int(getattr(_optimizer(model), "iterations", None))


def steps_so_far(model: Any) -> int:
    """Returns the number of training steps of a model."""
    micro_steps = accumulated(model)
    if not micro_steps:
        return updates_so_far(model)
    counter = step_count(_optimizer(model))
    return updates_so_far(model) * micro_steps if counter is None else _as_int(counter)


def accumulated(model: Any) -> int:
    """Returns the number of steps whose gradients are accumulated; 0 if each step is an update."""
    return int(getattr(_optimizer(model), "gradient_accumulation_steps", None) or 0)


def _optimizer(model: Any) -> Any:
    optimizer = getattr(model, "optimizer", None)
    # A loss scale optimizer passes steps on to its inner optimizer, which counts them.
    return getattr(optimizer, "inner_optimizer", optimizer)


def _as_int(counter: Any) -> int:
    import keras

    if isinstance(counter, keras.Variable):
        return int(reader(counter)()[0])  # each replica counts all steps
    return 0 if counter is None else int(keras.ops.convert_to_numpy(counter))
