"""Copies a model layer by layer; each layer is created, built and called in its own context."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from keras_gpukit.distributed.splitting.units import Unit, units_of

Around = Callable[[int], AbstractContextManager[Any]]
"""Returns the context in which a unit, given its index, is created, built and called."""

_MARK = "gpukit_stage_"


def rebuild(model: Any, around: Around) -> Any:
    """Returns a copy of a model with the same values, each layer created in its own context.

    Names, connections, states of seeds and compilation are those of the model, which is unchanged.
    Only instance attributes differ, so the copy is saved as the model is.

    Raises:
        ValueError: If a layer or the model cannot be created from its configuration.
    """
    import keras

    units = units_of(model)
    made: dict[int, Any] = {}
    places = {id(unit.layer): place for place, unit in enumerate(units)}

    def make(layer: Any) -> Any:
        # Keras asks twice for a layer that the outer model shares with a nested one.
        if id(layer) in made:
            return made[id(layer)]
        place = places.get(id(layer))
        if place is None:  # an operation such as `x + y`: it has no variables
            return type(layer).from_config(layer.get_config())
        made[id(layer)] = _make(units[place], lambda: around(place))
        return made[id(layer)]

    copied = keras.models.clone_model(model, clone_function=make, recursive=True)
    if type(copied) is not type(model):
        raise ValueError(
            f"{type(model).__name__} has a constructor of its own, so that it can't be made again "
            "from its layers; split_model needs a plain Functional or Sequential model, or a "
            "subclass that takes `inputs` and `outputs`"
        )
    for unit in units:
        _copy_values(unit, made[id(unit.layer)])
    return copied


@contextmanager
def marked(mark: int) -> Iterator[None]:
    """Puts a mark in the names of the operations made within, and of their backward pass."""
    import tensorflow as tf

    with tf.name_scope(f"{_MARK}{mark}"):
        yield


def mark_in(name: str) -> int | None:
    """Returns the mark in an operation's name; None if it has none."""
    _, found, rest = name.rpartition(_MARK)
    digits = rest.split("/")[0].split("_")[0]
    return int(digits) if found and digits.isdigit() else None


def _make(unit: Unit, around: Callable[[], AbstractContextManager[Any]]) -> Any:
    layer = unit.layer
    try:
        with around():
            made = type(layer).from_config(layer.get_config())
    except Exception as error:
        raise ValueError(
            f"The layer {unit.name!r} ({type(layer).__name__}) can't be made again from its "
            f"configuration: {error}. Give it a get_config that its constructor understands"
        ) from error
    for method in ("build", "call"):
        setattr(made, method, _within(around, getattr(made, method)))
    return made


def _within(
    around: Callable[[], AbstractContextManager[Any]], method: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(method)  # Keras looks at the signature
    def within(*args: Any, **kwargs: Any) -> Any:
        with around():
            return method(*args, **kwargs)

    return within


def _copy_values(unit: Unit, copy: Any) -> None:
    """Copies weights and states of random generators, so that dropout masks stay the same."""
    old, new = unit.layer.variables, copy.variables
    if [tuple(each.shape) for each in old] != [tuple(each.shape) for each in new]:
        raise ValueError(
            f"The layer {unit.name!r} ({type(copy).__name__}) has other variables when it is made "
            "again from its configuration: it was changed after it was made, or its get_config "
            "leaves something out"
        )
    for source, target in zip(old, new, strict=True):
        target.assign(source)
