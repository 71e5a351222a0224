"""How many steps and optimizer updates a model has had, over all its fits.

Private name, seen on Keras 3.12 to 3.15: `Optimizer._iterations`, which counts steps also where
gradients are accumulated and `iterations` counts updates. Without it, steps are taken from updates,
and those since the last update are left out.
"""

from __future__ import annotations

from typing import Any

from keras_gpukit.input_wait.examples import reader


def updates_so_far(model: Any) -> int:
    """Returns the updates of a model's weights: fewer than steps where gradients accumulate."""
    return _as_int(getattr(_optimizer(model), "iterations", None))


def steps_so_far(model: Any) -> int:
    """Returns the training steps of a model."""
    optimizer = _optimizer(model)
    accumulated = getattr(optimizer, "gradient_accumulation_steps", None)
    if not accumulated:
        return updates_so_far(model)
    counter = getattr(optimizer, "_iterations", None)
    return updates_so_far(model) * int(accumulated) if counter is None else _as_int(counter)


def _optimizer(model: Any) -> Any:
    optimizer = getattr(model, "optimizer", None)
    # A loss scale optimizer passes steps on to the one it contains, which does the counting.
    return getattr(optimizer, "inner_optimizer", optimizer)


def _as_int(counter: Any) -> int:
    import keras

    if isinstance(counter, keras.Variable):
        return int(reader(counter)()[0])  # each replica counts all steps
    return 0 if counter is None else int(keras.ops.convert_to_numpy(counter))
