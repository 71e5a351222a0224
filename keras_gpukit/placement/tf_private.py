"""Every private name of TensorFlow that reading placement needs.

Seen on TensorFlow 2.21. TensorFlow has no public way to any of these; where one is gone, the
call raises AttributeError or ImportError, and the record says that placement is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def enable_graph_collection() -> None:
    """Has the runtime keep the graphs of each function it instantiates from now on."""
    _context().enable_graph_collection()


def take_collected_graphs() -> list[Any]:
    """Stops the collection and returns what it kept: a `FunctionGraphs` proto a function."""
    context = _context()
    try:
        return list(context.export_run_metadata().function_graphs)
    finally:
        context.disable_graph_collection()


def is_summary_trace_on() -> bool:
    """Whether `tf.summary.trace_on` is collecting; the runtime has one collection for all."""
    from tensorflow.python.ops import summary_ops_v2

    return summary_ops_v2._current_trace_context is not None


def add_op_callback(callback: Callable[..., None]) -> None:
    """Has `callback` see each operation that this thread runs from now on."""
    from tensorflow.python.framework import op_callbacks

    op_callbacks.add_op_callback(callback)


def remove_op_callback(callback: Callable[..., None]) -> None:
    """Undoes `add_op_callback`."""
    from tensorflow.python.framework import op_callbacks

    op_callbacks.remove_op_callback(callback)


def is_function(name: str) -> bool:
    """Whether an operation type is really the name of a `tf.function`'s graph."""
    return bool(_context().has_function(name))


def name_scope() -> str:
    """Returns this thread's name scope, such as "sequential/dense/"."""
    return str(_context().scope_name)


def requested_device() -> str:
    """Returns the device that this thread asks for; empty where it doesn't care."""
    return _context().device_name or ""


def registered_kernels(operation_type: str) -> list[Any]:
    """Returns the `KernelDef` protos of an operation."""
    from tensorflow.python.framework import kernels

    return list(kernels.get_registered_kernels_for_op(operation_type).kernel)


def op_def(operation_type: str) -> Any | None:
    """Returns the `OpDef` proto of an operation, None where TensorFlow has no such operation."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(operation_type)


def _context() -> Any:
    from tensorflow.python.eager import context

    return context.context()
