"""Which layer an operation belongs to, by the name scopes it was made in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

_NUMBERED = re.compile(r"(.+)_\d+")
_BACKWARD = "gradient_tape/"


def layer_names(model: Any) -> frozenset[str]:
    """Returns the names of a model's layers, and of the layers and models within them."""
    return frozenset(_names(model))


def layer_of(operation: str, layers: Collection[str]) -> str | None:
    """Returns the layer of an operation, as "backbone/conv2d"; None for one of no layer.

    Keras opens a scope of each layer's name to build it, and a second one to call it, which
    TensorFlow numbers: `conv2d_1/Relu` belongs to `conv2d`, though there may be a `conv2d_1`, whose
    own is `conv2d_1_2/Relu`.

    Args:
        operation: Its full name.
        layers: Of the model.
    """
    *scopes, _ = operation.split("/")
    found = [layer for layer in (_layer(scope, layers) for scope in scopes) if layer]
    return "/".join(found) or None


def is_backward(operation: str) -> bool:
    """Whether an operation belongs to the backward pass."""
    return _BACKWARD in operation


def _layer(scope: str, layers: Collection[str]) -> str | None:
    numbered = _NUMBERED.fullmatch(scope)
    if numbered and numbered[1] in layers:
        return numbered[1]
    return scope if scope in layers else None


def _names(layer: Any) -> Iterator[str]:
    inner: Any = getattr(layer, "layers", None) or getattr(layer, "_layers", ())
    for each in inner:
        yield each.name
        yield from _names(each)
