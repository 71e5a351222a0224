"""Modules of TensorFlow that are not public, for reading and rebuilding pipelines.

Seen on TensorFlow 2.21: `op_def_registry.get`, `script_ops._py_funcs`, `context.anonymous_name`,
the source maps of AutoGraph's conversions in `autograph.impl.api._TRANSPILER._cache`,
`data.util.nest`, and the classes of stages in `tensorflow.python.data.ops`.
"""

from __future__ import annotations

from typing import Any


def is_stateful(operation: str) -> bool:
    """Whether an operation type is registered as stateful; an unknown one counts as stateful."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(operation)
    return definition is None or bool(definition.is_stateful)


def python_functions() -> dict[bytes | str, Any]:
    """Returns what the process' `py_function` and `numpy_function` operations call, by token."""
    from tensorflow.python.ops import script_ops

    functions: dict[bytes | str, Any] = getattr(script_ops, "_py_funcs", {})
    return functions


def anonymous_name() -> str:
    """Returns the name of a variable that no strategy mirrors, and that is freed with its users."""
    from tensorflow.python.eager import context

    return str(context.anonymous_name())


def before_conversion(name: str, filename: str, line: int) -> tuple[str, str | None, int]:
    """Returns the function, file and line from which AutoGraph generated a line of code.

    Tracebacks of operations already have them, except for functions that a converted one defines.
    The file is None if it is unknown.
    """
    try:
        from tensorflow.python.autograph.impl import api

        converted = [
            factory
            for factories in list(api._TRANSPILER._cache._cache.values())
            for factory in factories.values()
        ]
        for factory in converted:
            origin = factory.source_map.get((filename, line))
            if origin is not None:
                return origin.function_name, origin.loc.filename, origin.loc.lineno
    except (ImportError, AttributeError):
        pass
    return name.removeprefix("tf__"), None, line


def nest() -> Any:
    """Returns tf.data's own module for nested structures, which keeps lists as they are."""
    from tensorflow.python.data.util import nest

    return nest


def unchanged_over(below: Any, variant: Any) -> Any:
    """Returns a stage, made by an operation, whose elements are those of another one."""
    from tensorflow.python.data.ops import dataset_ops

    return dataset_ops.UnaryUnchangedStructureDataset(below, variant)


def initialize(stage: Any, variant: Any, below: Any = None) -> None:
    """Gives a copy of a stage the operation that makes it, and its input; None for a source."""
    from tensorflow.python.data.ops import dataset_ops

    if below is None:
        dataset_ops.DatasetSource.__init__(stage, variant)
    else:
        dataset_ops.UnaryDataset.__init__(stage, below, variant)


def parallel_form(kind: str) -> Any | None:
    """Returns the class of the parallel form of a kind of stage; None if it has none."""
    try:
        from tensorflow.python.data.ops import batch_op, interleave_op, map_op
    except ImportError:
        return None
    module, name = {
        "Map": (map_op, "_ParallelMapDataset"),
        "Batch": (batch_op, "_ParallelBatchDataset"),
        "Interleave": (interleave_op, "_ParallelInterleaveDataset"),
        "FlatMap": (interleave_op, "_ParallelInterleaveDataset"),
    }.get(kind, (None, ""))
    return getattr(module, name, None)
