"""Splits a model over devices: here, the layers that can be moved, and a copy made of them.

`costs` measures the layers and cuts their list into stages, and `placed_steps` keeps the backward
pass and updates on the devices of their layers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Unit:
    """A layer that is moved to a device as a whole, named "model/layer" within a nested model."""

    name: str
    layer: Any


def units_of(model: Any) -> tuple[Unit, ...]:
    """Returns the layers to distribute over devices.

    Nested Functional and Sequential models are opened: their layers are separate units. Layers
    that contain layers, such as `Bidirectional` or a subclassed model, stay whole. A layer that is
    used several times is one unit, at its first place.
    """
    import keras

    if not isinstance(model, keras.Model):
        raise TypeError(f"`model` must be a keras.Model. Received: model={model!r}")
    if not is_graph_of_layers(model):
        raise ValueError(
            "split_model needs a Functional or Sequential model: only its `call` knows the order "
            "and the connections of a subclassed model's layers. Build it from keras.Input and "
            f"layers, or split it in `call` yourself. Received: model={_name(model)}"
        )
    if not model.built:
        raise ValueError(
            "split_model needs a model with known shapes: give it a keras.Input, or build it "
            f"first. Received: model={_name(model)}"
        )
    _refuse_strategy(model)
    by_layer: dict[int, Unit] = {}
    for unit in _walk(model, ""):
        by_layer.setdefault(id(unit.layer), unit)
    units = tuple(by_layer.values())
    _refuse_shared_variables(units)
    return units


def is_graph_of_layers(layer: Any) -> bool:
    """Whether a layer is a model whose layers and connections Keras knows."""
    # Functional has no public name; `keras.Model(inputs, outputs)` returns it.
    return any(
        base.__name__ in ("Functional", "Sequential") and base.__module__.startswith("keras.")
        for base in type(layer).__mro__
    )


def _walk(model: Any, prefix: str) -> Iterator[Unit]:
    import keras

    for layer in model.layers:
        name = prefix + layer.name
        if is_graph_of_layers(layer):
            yield from _walk(layer, name + "/")
        elif not isinstance(layer, keras.layers.InputLayer):
            yield Unit(name, layer)


def _refuse_strategy(model: Any) -> None:
    import tensorflow as tf

    if tf.distribute.has_strategy() or type(model.distribute_strategy).__name__ not in (
        "NoneType",
        "_DefaultDistributionStrategy",
    ):
        raise ValueError(
            "A model is split over devices or copied to them, not both: build it outside of a "
            f"tf.distribute strategy's scope. Received: model={_name(model)}"
        )


def _refuse_shared_variables(units: tuple[Unit, ...]) -> None:
    owners: dict[int, str] = {}
    for unit in units:
        for variable in unit.layer.variables:
            owner = owners.setdefault(id(variable), unit.name)
            if owner != unit.name:
                raise ValueError(
                    f"The layers {owner!r} and {unit.name!r} share the variable "
                    f"{variable.path!r}, which rebuilding them on devices would separate. Use one "
                    "layer twice instead, such as keras.layers.ReversibleEmbedding"
                )


def _name(model: Any) -> str:
    return f"<{type(model).__name__} {getattr(model, 'name', '')!r}>"


def canonical(device: str) -> str:
    """Returns "/GPU:0" for "GPU:0", "gpu:0" and "/job:localhost/.../device:GPU:0"."""
    return "/" + device.upper().rpartition("DEVICE:")[2].strip("/")


Around = Callable[[int], AbstractContextManager[Any]]
"""Returns the context in which a unit, given its index, is created, built and called."""

_MARK = "gpukit_stage_"


def rebuild(model: Any, around: Around) -> Any:
    """Returns a copy of a model with the same values, each layer created in its own context.

    Names, connections, states of seeds and compilation are those of the model, which is unchanged.
    Only instance attributes differ, so the copy is saved as the model is.
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
    if [tuple(variable.shape) for variable in old] != [tuple(variable.shape) for variable in new]:
        raise ValueError(
            f"The layer {unit.name!r} ({type(copy).__name__}) has other variables when it is made "
            "again from its configuration: it was changed after it was made, or its get_config "
            "leaves something out"
        )
    for source, target in zip(old, new, strict=True):
        target.assign(source)
