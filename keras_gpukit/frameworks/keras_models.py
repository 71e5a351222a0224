"""Keras' models: their graphs of layers, calls of `fit` and others, callbacks, and global state."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from keras_gpukit.records.script import METHODS

STEP_FUNCTIONS = {
    "fit": ("train_function", "test_function"),
    "evaluate": ("test_function",),
    "predict": ("predict_function",),
    "train_on_batch": ("train_function",),
    "test_on_batch": ("test_function",),
    "predict_on_batch": ("predict_function",),
}
"""Attributes with the step functions that a call traces if they are None."""


def on_each_list(action: Callable[[str, Any, int], None]) -> None:
    """Calls an action with the callback list of each `fit`, `evaluate` and `predict`, once created.

    The list is created within the method, even if a subclass overrides it. It contains the
    callbacks of any nested list that the caller gave. No frame of this function is on the stack
    while the method runs. The validation of a `fit` uses the list of the `fit`.
    Only `fit` creates its list with `add_history=True`; if it no longer does, no `fit` is found.
    The action gets the method's name, the list, and the number of callbacks that the caller gave.
    Callbacks that Keras adds come after these.
    """
    import keras

    original = keras.callbacks.CallbackList.__init__

    @functools.wraps(original)
    def made(
        self: Any, callbacks: Any = None, add_history: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        original(self, callbacks, add_history, *args, **kwargs)
        method = sys._getframe(1).f_code.co_name
        # The script's own training loop may create such a list too, and use it differently.
        if add_history if method == "fit" else method in ("evaluate", "predict"):
            action(method, self, len(keras.tree.flatten(callbacks)) if callbacks else 0)

    keras.callbacks.CallbackList.__init__ = made


def around_each_call(around: Callable[[Any, Any], Any], methods: Sequence[str] = METHODS) -> None:
    """Wraps methods of every model: `fit`, `evaluate`, `predict` and those for one batch."""
    import keras
    from keras.src.utils import traceback_utils

    for method in methods:
        owner = next(kind for kind in keras.Model.__mro__ if method in vars(kind))
        original = vars(owner)[method]
        inner = getattr(original, "__wrapped__", None)
        if inner is None:
            wrapped = around(method, original)
        else:  # below Keras' own decorator, which removes the wrapper's frame from tracebacks
            wrapped = traceback_utils.filter_traceback(around(method, inner))
        setattr(owner, method, wrapped)


def leave_out_of_tracebacks(folder: str) -> None:
    """Makes Keras remove the frames of a folder's code from tracebacks, as its own, if it can."""
    from keras.src.utils import traceback_utils

    excluded = getattr(traceback_utils, "_EXCLUDED_PATHS", None)
    if isinstance(excluded, tuple) and folder not in excluded:
        traceback_utils._EXCLUDED_PATHS = (*excluded, folder)


def is_default(hook: Any) -> bool:
    """Whether a callback's hook is Keras' own, which does nothing."""
    return hasattr(hook, "_is_default")


def profiles_batches(tensorboard: Any) -> bool:
    """Whether Keras' `TensorBoard` captures profiles; False if unknown."""
    return bool(getattr(tensorboard, "_should_trace", False))


def profiled_batches(tensorboard: Any) -> tuple[int, int]:
    """Returns the first and last batch that Keras' `TensorBoard` captures; 0 if unknown."""
    return getattr(tensorboard, "_start_batch", 0), getattr(tensorboard, "_stop_batch", 0)


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
    """Calls an operation as its node of `nodes_of` does.

    `values` has those of the node's symbolic inputs, by id; those of its outputs are added. What is
    called for an operation says `callable_of`, which Keras passes to `RUN`: the operation with the
    `training` of this call, instead of the one that its node has recorded.
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
