"""Trains in less memory: gradient accumulation, rematerialization.

Each replaces attributes of a model for a while, so that its step is traced again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(model: Any, attributes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replaces attributes within the block, and restores them afterwards."""
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in attributes]
    for owner, name, value in attributes:
        setattr(owner, name, value)
    model.train_function = None  # otherwise Keras keeps the step that it has traced
    try:
        yield
    finally:
        for owner, name, own in reversed(before):
            if own is None:
                delattr(owner, name)  # uncovers the class's attribute
            else:
                setattr(owner, name, own)
        model.train_function = None


def check_compiled(model: Any) -> None:
    """Checks that a model can be trained."""
    import keras

    if not isinstance(model, keras.Model) or not getattr(model, "compiled", False):
        raise ValueError(f"`model` must be a compiled Keras model. Received: model={model!r}")
