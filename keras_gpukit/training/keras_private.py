"""Private names of Keras that recomputing needs, seen on Keras 3.12 to 3.15.

`keras.src.backend.common.global_state` has the call's context under "current_call_ctx": what layers
that are called without `training` take it from. `Functional._nodes_by_depth` are the calls that a
functional model consists of, `Functional._run_through_graph` makes them, and
`Sequential._functional` is the functional model within a sequential one. `Layer._flatten_layers`
lists the layers within layers; without it, only those that the model has itself are found.
Without them, `rematerialize` takes no `segments`; whole layers that get `training` explicitly can
still be recomputed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_CONTEXT = "current_call_ctx"
RUN = "_run_through_graph"
"""The method of a functional model that calls its operations."""


def call_context() -> Any:
    """Returns a copy of the context of the call that is under way; None outside one."""
    try:
        from keras.src.backend.common.global_state import get_global_attribute
    except ImportError:
        return None
    return copy.copy(get_global_attribute(_CONTEXT))


@contextmanager
def within(context: Any) -> Iterator[None]:
    """Calls layers as they were called in another context.

    Args:
        context: From `call_context`. None changes nothing.
    """
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
    """Returns the layers of a model, those within other layers too."""
    flatten = getattr(model, "_flatten_layers", lambda: model.layers)
    return [each for each in flatten() if each is not model]


def graph_of(model: Any) -> Any:
    """Returns the functional model that a model is, or contains if it is sequential; else None."""
    graph = getattr(model, "_functional", None) or model
    return graph if hasattr(graph, "_nodes_by_depth") and hasattr(graph, RUN) else None


def nodes_of(graph: Any) -> list[Any]:
    """Returns the calls of operations in a functional model, in order.

    Returns:
        Keras' nodes, without those of inputs.
    """
    by_depth = graph._nodes_by_depth
    ordered = (node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth])
    return [node for node in ordered if node.operation is not None and not node.is_input]


def call_node(node: Any, values: dict[int, Any], callable_of: Callable[[Any], Any]) -> None:
    """Calls an operation as its node does.

    Args:
        node: From `nodes_of`.
        values: Of the node's symbolic inputs, by their id; those of its outputs are added.
        callable_of: Gives what to call for an operation, as Keras hands it to `RUN`: the operation
            with the `training` of this call, in place of the one that its node has recorded.
    """
    import keras

    args, kwargs = node.arguments.fill_in(values)
    outputs = keras.tree.flatten(callable_of(node.operation)(*args, **kwargs))
    values.update(zip(map(id, node.outputs), outputs, strict=True))
