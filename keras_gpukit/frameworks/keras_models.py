"""Keras' models: their graphs of layers, the calls in them, and Keras' global state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_CONTEXT = "current_call_ctx"
RUN = "_run_through_graph"
"""The method of a functional model that calls its operations."""


def keras_globals() -> Any | None:
    """Returns the object with the calling thread's state of Keras: seeds, counters of names.

    None without it: they are not restored after a trial.
    """
    try:
        from keras.src.backend.common import global_state
    except ImportError:
        return None
    return getattr(global_state, "GLOBAL_STATE_TRACKER", None)


def call_context() -> Any:
    """Returns a copy of the context of the current call; None outside a call, or if unknown.

    Layers that are called without `training` read it from there. Without it, only layers that get
    `training` explicitly can be computed twice.
    """
    try:
        from keras.src.backend.common.global_state import get_global_attribute
    except ImportError:
        return None
    return copy.copy(get_global_attribute(_CONTEXT))


@contextmanager
def within(context: Any) -> Iterator[None]:
    """Makes the layers called within the block run in the context of another call."""
    if context is None:
        yield
        return
    from keras.src.backend.common.global_state import get_global_attribute, set_global_attribute

    before = get_global_attribute(_CONTEXT)
    set_global_attribute(_CONTEXT, copy.copy(context))
    try:
        yield
    finally:
        set_global_attribute(_CONTEXT, before)


def layers_within(model: Any) -> list[Any]:
    """Returns the layers of a model, including those within other layers if they can be found."""
    flatten = getattr(model, "_flatten_layers", lambda: model.layers)
    return [each for each in flatten() if each is not model]


def graph_of(model: Any) -> Any:
    """Returns the functional model that a model is, or contains if it is sequential; else None.

    None without it: `rematerialize` accepts no `segments`.
    """
    graph = getattr(model, "_functional", None) or model
    return graph if hasattr(graph, "_nodes_by_depth") and hasattr(graph, RUN) else None


def nodes_of(graph: Any) -> list[Any]:
    """Returns the calls of operations in a functional model, in order."""
    by_depth = graph._nodes_by_depth
    ordered = (node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth])
    return [node for node in ordered if node.operation is not None and not node.is_input]


def call_node(node: Any, values: dict[int, Any], callable_of: Callable[[Any], Any]) -> None:
    """Calls an operation as its node does.

    Args:
        node: Node from `nodes_of`.
        values: Values of the node's symbolic inputs, by id of the input. The values of its outputs
            are added.
        callable_of: Function that returns what to call for an operation, as Keras passes it to
            `RUN`: the operation with the `training` of this call, instead of the `training` that
            its node has recorded.
    """
    import keras

    args, kwargs = node.arguments.fill_in(values)
    outputs = keras.tree.flatten(callable_of(node.operation)(*args, **kwargs))
    values.update(zip(map(id, node.outputs), outputs, strict=True))


def with_mask_of(original: Any, tensor: Any) -> Any:
    """Returns a tensor with the mask that Keras attached to another one."""
    mask = getattr(original, "_keras_mask", None)
    if mask is not None:
        tensor._keras_mask = mask
    return tensor
