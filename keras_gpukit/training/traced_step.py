"""A compiled model's attribute, replaced for a while; its step is traced again before and after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(model: Any, attributes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replaces attributes, and puts back what was there.

    Args:
        model: The model that trains with them.
        attributes: The owner, the name and the new value of each.
    """
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in attributes]
    for owner, name, value in attributes:
        setattr(owner, name, value)
    model.train_function = None  # Keras keeps the traced step that it has
    try:
        yield
    finally:
        for owner, name, own in reversed(before):
            if own is None:
                delattr(owner, name)  # the class's is back
            else:
                setattr(owner, name, own)
        model.train_function = None


def check_compiled(model: Any) -> None:
    """Checks that a model can be trained.

    Raises:
        ValueError: If it is no Keras model, or not compiled.
    """
    import keras

    if not isinstance(model, keras.Model) or not getattr(model, "compiled", False):
        raise ValueError(f"`model` must be a compiled Keras model. Received: model={model!r}")
