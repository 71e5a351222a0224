"""Finds the layer that an operation belongs to, by the name scopes it was created in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

_NUMBERED = re.compile(r"(.+)_\d+")
_BACKWARD = "gradient_tape/"


@dataclass(frozen=True)
class LayerNames:
    """Names of a model's layers, as they are in the names of operations.

    They are `numbered` if Keras opens a scope with a layer's name to build the layer, and a second
    one to call it, which TensorFlow numbers. Then `conv2d_1/Relu` belongs to `conv2d`, even if
    there is a layer `conv2d_1`, whose own operation is `conv2d_1_2/Relu`. Otherwise it belongs to
    `conv2d_1`; only a further call of a layer is numbered.
    """

    names: frozenset[str]
    numbered: bool

    def with_name(self, name: str) -> LayerNames:
        """Returns these names and one more."""
        return replace(self, names=self.names | {name})

    def of(self, operation: str) -> str | None:
        """Returns the layer of an operation, such as "backbone/conv2d"; None if it has no layer.

        The body of a loop repeats the scopes around it; they count once.
        """
        *scopes, _ = operation.split("/")
        path: list[str] = []
        for layer in map(self._layer, scopes):
            if layer in path:
                del path[path.index(layer) + 1 :]
            elif layer:
                path.append(layer)
        return "/".join(path) or None

    def spelt(self, operation: str) -> str:
        """Returns an operation's name with its layers named as in the model."""
        *scopes, own = operation.split("/")
        return "/".join((*(self._layer(scope) or scope for scope in scopes), own))

    def _layer(self, scope: str) -> str | None:
        match = _NUMBERED.fullmatch(scope)
        stem = match[1] if match and match[1] in self.names else None
        exact = scope if scope in self.names else None
        return stem or exact if self.numbered else exact or stem


def layer_names(model: Any, *, numbered: bool) -> LayerNames:
    """Returns the names of a model's layers, and of the layers and models within them."""
    return LayerNames(frozenset(layer.name for layer in layers_in(model)), numbered)


NO_LAYERS = LayerNames(frozenset(), numbered=True)


def layers_in(model: Any) -> Iterator[Any]:
    """Yields a model's layers, and the layers and models within them."""
    for layer in getattr(model, "layers", None) or getattr(model, "_layers", None) or ():
        yield layer
        yield from layers_in(layer)


def is_backward(operation: str) -> bool:
    """Whether an operation belongs to the backward pass."""
    return _BACKWARD in operation


def forward_of(operation: str) -> str:
    """Returns the operation whose gradient one of the backward pass computes, or itself."""
    if not is_backward(operation):
        return operation
    return operation.replace(_BACKWARD, "", 1).rpartition("/")[0]
