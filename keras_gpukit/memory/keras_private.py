"""Private names of Keras that recomputing and restoring a model need, seen on Keras 3.12 to 3.15.

`keras.src.backend.common.global_state.GLOBAL_STATE_TRACKER` holds the global seed generator and the
counters for automatic names. If it is gone, they are not restored.

`keras.src.backend.common.global_state` has the context of the current call, "current_call_ctx".
Layers that are called without `training` read it from there. `Functional._nodes_by_depth` holds the
calls that a functional model consists of, and `Functional._run_through_graph` runs them.
`Sequential._functional` is the functional model within a sequential one. `Layer._flatten_layers`
lists the layers within layers; without it, only the model's direct layers are found.

Without these names, `rematerialize` does not accept `segments`. Whole layers that get `training`
explicitly can still be recomputed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_CONTEXT = "current_call_ctx"
RUN = "_run_through_graph"
"""The method of a functional model that calls its operations."""


def keras_globals() -> Any | None:
    """Returns the object whose attributes are the calling thread's global state of Keras."""
    try:
        from keras.src.backend.common import global_state
    except ImportError:
        return None
    return getattr(global_state, "GLOBAL_STATE_TRACKER", None)


def call_context() -> Any:
    """Returns a copy of the context of the current call; None outside a call."""
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
    """Returns the layers of a model, including those within other layers."""
    flatten = getattr(model, "_flatten_layers", lambda: model.layers)
    return [each for each in flatten() if each is not model]


def graph_of(model: Any) -> Any:
    """Returns the functional model that a model is, or contains if it is sequential; else None."""
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
