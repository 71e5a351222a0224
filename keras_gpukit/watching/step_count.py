"""How many steps and optimizer updates a model has had, over all its fits.

Private name, seen on Keras 3.12 to 3.15: `Optimizer._iterations`, which counts steps also where
gradients are accumulated and `iterations` counts updates. Without it, steps are taken from updates,
and those since the last update are left out.
"""

from __future__ import annotations

from typing import Any

from keras_gpukit.input_wait.examples import reader


class FitCount:
    """How many steps and updates a model has had since this was made.

    Args:
        model: The model that is trained.
        first_step: Its steps so far.
    """

    def __init__(self, model: Any, first_step: int) -> None:
        self._model = model
        self._first_step = first_step
        # Reading a counter takes a tenth of a millisecond, which short fits would notice.
        self._first_update = updates_so_far(model) if _accumulated(model) else first_step

    def steps(self, calls: int, steps_per_execution: int, pipelines: int) -> int:
        """Returns the steps of the calls of the step function.

        Args:
            calls: How many there were.
            steps_per_execution: The most steps in one call.
            pipelines: How often the last call may have been a shorter one.
        """
        # The optimizer knows how short, unless it counts something else.
        counted = steps_so_far(self._model) - self._first_step
        fits = 0 <= calls * steps_per_execution - counted <= (steps_per_execution - 1) * pipelines
        return counted if fits else calls * steps_per_execution

    def updates(self, steps: int, pipelines: int) -> int | None:
        """Returns the updates of the weights; None where they cannot be known.

        Args:
            steps: Steps that ran.
            pipelines: How often Keras may have looked for the end of the data: its optimizer counts
                the step that finds none.
        """
        optimizer = _optimizer(self._model)
        if optimizer is None:
            return None
        counted = updates_so_far(self._model)
        accumulates = _accumulated(self._model)
        spare = steps_so_far(self._model) if accumulates else counted
        spare -= self._first_step + steps
        if not 0 < spare <= pipelines:
            return counted - self._first_update
        # Whether weights would have been updated in the spare ones is not known.
        return None if accumulates else steps


def updates_so_far(model: Any) -> int:
    """Returns the updates of a model's weights: fewer than steps where gradients accumulate."""
    return _as_int(getattr(_optimizer(model), "iterations", None))


def steps_so_far(model: Any) -> int:
    """Returns the training steps of a model."""
    accumulated = _accumulated(model)
    if not accumulated:
        return updates_so_far(model)
    counter = getattr(_optimizer(model), "_iterations", None)
    return updates_so_far(model) * accumulated if counter is None else _as_int(counter)


def _accumulated(model: Any) -> int:
    """The steps of whose gradients an update is made; 0 where each step is an update."""
    return int(getattr(_optimizer(model), "gradient_accumulation_steps", None) or 0)


def _optimizer(model: Any) -> Any:
    optimizer = getattr(model, "optimizer", None)
    # A loss scale optimizer passes steps on to the one it contains, which does the counting.
    return getattr(optimizer, "inner_optimizer", optimizer)


def _as_int(counter: Any) -> int:
    import keras

    if isinstance(counter, keras.Variable):
        return int(reader(counter)()[0])  # each replica counts all steps
    return 0 if counter is None else int(keras.ops.convert_to_numpy(counter))
