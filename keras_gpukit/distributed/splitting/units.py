"""Lists the layers of a model that can be moved one by one, in the order of the forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Unit:
    """A layer that is moved to a device as a whole.

    Attributes:
        name: Name of the layer; "model/layer" within a nested model.
        layer: The Keras layer.
    """

    name: str
    layer: Any


def units_of(model: Any) -> tuple[Unit, ...]:
    """Returns the layers to distribute over devices.

    Nested Functional and Sequential models are opened: their layers are separate units. Layers
    that contain layers, such as `Bidirectional` or a subclassed model, stay whole. A layer that is
    used several times is one unit, at its first place.

    Raises:
        TypeError: If `model` is not a Keras model.
        ValueError: If the model cannot be taken apart: a subclassed model, one that is not built,
            one that belongs to a `tf.distribute` strategy, or one whose layers share variables.
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
    units = tuple(_unique(_walk(model, "")))
    _refuse_shared_variables(units)
    return units


def is_graph_of_layers(layer: Any) -> bool:
    """Whether a layer is a model whose layers and connections Keras knows."""
    import keras

    return isinstance(layer, keras.Sequential) or _is_functional(layer)


def _is_functional(layer: Any) -> bool:
    import keras

    # The class has no public name; `keras.Model(inputs, outputs)` returns it.
    return isinstance(layer, keras.Model) and any(
        base.__name__ == "Functional" and base.__module__.startswith("keras.")
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


def _unique(units: Iterator[Unit]) -> Iterator[Unit]:
    seen: set[int] = set()
    for unit in units:
        if id(unit.layer) not in seen:
            seen.add(id(unit.layer))
            yield unit


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
