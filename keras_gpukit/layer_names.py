"""Which layer an operation belongs to, by the name scopes it was made in."""

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


def layer_of(operation: str, layers: Collection[str], *, numbered: bool = True) -> str | None:
    """Returns the layer of an operation, as "backbone/conv2d"; None for one of no layer.

    Keras opens a scope of each layer's name to build it, and a second one to call it, which
    TensorFlow numbers: `conv2d_1/Relu` belongs to `conv2d`, though there may be a `conv2d_1`, whose
    own is `conv2d_1_2/Relu`. The body of a loop repeats the scopes around it, which count once.

    Args:
        operation: Its full name.
        layers: Of the model.
        numbered: Whether it is one of a graph; TensorFlow numbers no scopes of eager operations.
    """
    *scopes, _ = operation.split("/")
    path: list[str] = []
    for layer in (_layer(scope, layers, numbered) for scope in scopes):
        if layer in path:
            del path[path.index(layer) + 1 :]
        elif layer:
            path.append(layer)
    return "/".join(path) or None


def spelt_with_layers(operation: str, layers: Collection[str], *, numbered: bool = True) -> str:
    """Returns an operation's name with its layers as they are called in the model."""
    *scopes, own = operation.split("/")
    return "/".join((*(_layer(scope, layers, numbered) or scope for scope in scopes), own))


def is_backward(operation: str) -> bool:
    """Whether an operation belongs to the backward pass."""
    return _BACKWARD in operation


def _layer(scope: str, layers: Collection[str], numbered: bool) -> str | None:
    match = _NUMBERED.fullmatch(scope) if numbered else None
    if match and match[1] in layers:
        return match[1]
    return scope if scope in layers else None
