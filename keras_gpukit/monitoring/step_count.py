"""Counts the steps and optimizer updates of a model, over all its fits."""

from __future__ import annotations

from typing import Any

from keras_gpukit.frameworks.keras_trainer import step_count
from keras_gpukit.input.wait.examples import reader


class FitCount:
    """Counts the steps and updates of a model since this object was made."""

    def __init__(self, model: Any, first_step: int) -> None:
        self._model = model
        self._first_step = first_step
        # Reading a counter takes 0.1 ms, which matters for short fits.
        self._first_update = updates_so_far(model) if accumulated(model) else first_step

    def steps(self, calls: int, steps_per_execution: int, pipelines: int) -> int:
        """Returns the number of steps in all calls of the step function."""
        # Each pipeline's data may have ended within a call, which then has fewer steps. The
        # optimizer's counter shows how many fewer, unless it counts something else.
        counted = steps_so_far(self._model) - self._first_step
        fits = 0 <= calls * steps_per_execution - counted <= (steps_per_execution - 1) * pipelines
        return counted if fits else calls * steps_per_execution

    def updates(self, steps: int, pipelines: int) -> int | None:
        """Returns the number of updates of the weights; None if unknown.

        The optimizer may also count the steps that find no more data, one for each pipeline.
        """
        optimizer = _optimizer(self._model)
        if optimizer is None:
            return None
        counted = updates_so_far(self._model)
        accumulates = accumulated(self._model)
        spare = steps_so_far(self._model) if accumulates else counted
        spare -= self._first_step + steps
        if not 0 < spare <= pipelines:
            return counted - self._first_update
        # Whether the extra steps would have updated the weights is unknown.
        return None if accumulates else steps


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
