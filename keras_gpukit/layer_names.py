"""Finds the layer that an operation belongs to, by the name scopes it was created in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

_NUMBERED = re.compile(r"(.+)_\d+")
_BACKWARD = "gradient_tape/"


def layer_names(model: Any) -> frozenset[str]:
    """Returns the names of a model's layers, and of the layers and models within them."""
    return frozenset(layer.name for layer in layers_in(model))


def layers_in(model: Any) -> Iterator[Any]:
    """Yields a model's layers, and the layers and models within them."""
    for each in getattr(model, "layers", None) or getattr(model, "_layers", None) or ():
        yield each
        yield from layers_in(each)


def layer_of(operation: str, layers: Collection[str]) -> str | None:
    """Returns the layer of an operation, such as "backbone/conv2d"; None if it has no layer.

    Keras opens a scope with a layer's name to build the layer, and a second one to call it, which
    TensorFlow numbers. So `conv2d_1/Relu` belongs to `conv2d`, even if there is a layer `conv2d_1`,
    whose own operation is `conv2d_1_2/Relu`. The body of a loop repeats the scopes around it; they
    count once.
    """
    *scopes, _ = operation.split("/")
    path: list[str] = []
    for layer in (_layer(scope, layers) for scope in scopes):
        if layer in path:
            del path[path.index(layer) + 1 :]
        elif layer:
            path.append(layer)
    return "/".join(path) or None


def spelt_with_layers(operation: str, layers: Collection[str]) -> str:
    """Returns an operation's name with its layers named as in the model."""
    *scopes, own = operation.split("/")
    return "/".join((*(_layer(scope, layers) or scope for scope in scopes), own))


def is_backward(operation: str) -> bool:
    """Whether an operation belongs to the backward pass."""
    return _BACKWARD in operation


def _layer(scope: str, layers: Collection[str]) -> str | None:
    match = _NUMBERED.fullmatch(scope)
    if match and match[1] in layers:
        return match[1]
    return scope if scope in layers else None
