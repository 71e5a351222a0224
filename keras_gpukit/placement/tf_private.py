"""All private TensorFlow functions that reading placement needs.

They exist in TensorFlow 2.21, and have no public equivalent. If one is missing, the call raises
AttributeError or ImportError, and the record says that placement is unknown.
"""

from __future__ import annotations

from typing import Any


def enable_graph_collection() -> None:
    """Makes the runtime keep the graphs of each function that it instantiates from now on."""
    _context().enable_graph_collection()


def take_collected_graphs() -> list[Any]:
    """Stops the collection and returns the graphs: one `FunctionGraphs` proto per function."""
    context = _context()
    try:
        return list(context.export_run_metadata().function_graphs)
    finally:
        context.disable_graph_collection()


def is_summary_trace_on() -> bool:
    """Whether `tf.summary.trace_on` is collecting graphs; the runtime has one shared collection."""
    from tensorflow.python.ops import summary_ops_v2

    return summary_ops_v2._current_trace_context is not None


def registered_kernels(operation_type: str) -> list[Any]:
    """Returns the `KernelDef` protos registered for an operation type."""
    from tensorflow.python.framework import kernels

    return list(kernels.get_registered_kernels_for_op(operation_type).kernel)


def op_def(operation_type: str) -> Any | None:
    """Returns the `OpDef` proto of an operation type; None if TensorFlow does not know the type."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(operation_type)


def python_function(token: bytes) -> Any:
    """Returns the function that an operation calls, by its attribute `token`."""
    from tensorflow.python.ops import script_ops

    registered = script_ops._py_funcs._funcs[token.decode()]
    return getattr(registered, "_func", registered)  # `py_function` wraps its function


def _context() -> Any:
    from tensorflow.python.eager import context

    return context.context()
