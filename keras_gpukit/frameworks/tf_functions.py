"""TensorFlow's traced functions, their graphs, and the registry of operations."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from keras_gpukit.records.steps import RetraceCause

Change = tuple[RetraceCause, str | None]
"""Difference between two tracings of a function: the cause, and the name of its argument."""
_LITERAL = "Literal"  # TensorFlow's type of a Python value
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
LOOPS = frozenset({"While", "StatelessWhile"})
BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
"""Types of operations that call functions, in graphs before they are lowered."""


def op_def(operation_type: str) -> Any | None:
    """Returns the `OpDef` proto of an operation type; None if TensorFlow does not know the type.

    Without the registry, no memory is predicted and no pipeline changed.
    """
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(operation_type)


def is_stateful(operation_type: str) -> bool:
    """Whether an operation type is registered as stateful; an unknown one counts as stateful."""
    definition = op_def(operation_type)
    return definition is None or bool(definition.is_stateful)


def registered_kernels(operation_type: str) -> list[Any]:
    """Returns the `KernelDef` protos registered for an operation type."""
    from tensorflow.python.framework import kernels

    return list(kernels.get_registered_kernels_for_op(operation_type).kernel)


def python_function(token: bytes) -> Any:
    """Returns what an operation calls in Python, by its attribute `token`; None if unknown."""
    from tensorflow.python.ops import script_ops

    registered = getattr(script_ops, "_py_funcs", {}).get(token.decode())
    return getattr(registered, "_func", registered)  # `py_function` wraps its function


def traces_of(step_function: Any) -> list[Any]:
    """Returns the traces of a model's step function, as `ConcreteFunction`s, the first one first.

    Keras' step function calls a `tf.function` that is in its closure, in one wrapper or several.
    Empty if it is not found; then a run shows only the variables that its model refers to.
    """
    function = _unwrapped(step_function)
    found = (function, *filter(callable, _closure(function).values()))
    traced = [tf_function for tf_function in map(_unwrapped, found) if _is_traced(tf_function)]
    return [trace for tf_function in traced for trace in tf_function._list_all_concrete_functions()]


def _unwrapped(function: Any) -> Any:
    return inspect.unwrap(function, stop=_is_traced)


def _is_traced(function: Any) -> bool:
    return hasattr(function, "_list_all_concrete_functions")


def _closure(function: Any) -> dict[str, Any]:
    is_function = inspect.isfunction(function)
    return dict(inspect.getclosurevars(function).nonlocals) if is_function else {}


def used_variables(step_function: Any) -> tuple[Any, ...]:
    """Returns the `tf.Variable`s that the traces of a model's step function use; () if unknown."""
    traces = traces_of(step_function)
    return tuple(
        {id(variable): variable for trace in traces for variable in trace.graph.variables}.values()
    )


def step_graph(step_function: Any) -> Any | None:
    """Returns the graph of one step on one batch, as it was traced; None if none was.

    Raises AttributeError if the step function is not Keras' own.
    """
    inner = _closure(inspect.unwrap(step_function))
    if "one_step_on_data" not in inner:
        raise AttributeError("the step function is not Keras' own")
    traces = traces_of(inner["one_step_on_data"])
    return traces[-1].graph if traces else None  # the last one takes the most kinds of batches


def function_graph(graph: Any, name: str) -> Any:
    """Returns the graph of a function that operations of a graph call."""
    around = graph
    while around is not None:
        function = around._get_function(name)
        if function is not None:
            return function.graph
        around = getattr(around, "outer_graph", None)
    raise KeyError(name)


def called_graphs(graph: Any) -> dict[str, Any]:
    """Returns the graphs of the functions that a graph calls, by name."""
    return {name: function.graph for name, function in graph._functions.items()}


def nested_graphs(graph: Any) -> Iterator[Any]:
    """Yields the graphs of the functions that a graph calls, and of those that these call."""
    for called in called_graphs(graph).values():
        yield called
        yield from nested_graphs(called)


def optimize_graph(graph_def: Any, fetches: Sequence[str]) -> Any:
    """Returns a graph as TensorFlow would run it, with operations fused, folded and removed.

    Returns the graph as it is if the optimizer is missing or fails; fused operations count twice.
    """
    try:
        from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
        from tensorflow.python.grappler import tf_optimizer

        meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph_def)
        for node in meta_graph.graph_def.node:
            # The optimizer would allocate an argument whose batch size is known.
            if node.op == "Placeholder" and node.attr["shape"].shape.dim:
                node.attr["shape"].shape.dim[0].size = -1
        meta_graph.meta_info_def.meta_graph_version = "step"
        for fetch in fetches:
            meta_graph.collection_def["train_op"].node_list.value.append(fetch)
        return tf_optimizer.OptimizeGraph(config_pb2.ConfigProto(), meta_graph, verbose=False)
    except Exception:  # the optimizer is not available, or rejects the graph
        return graph_def


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


class _Passing:
    """Takes the place of an object, and passes all calls on."""

    def __init__(self, wrapped: Any, note: Callable[..., None]) -> None:
        self.__wrapped__ = wrapped
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)


class _Manager(_Passing):
    def __init__(self, wrapped: Any, note: Callable[..., None]) -> None:
        super().__init__(wrapped, note)
        self.called_without_tracing = wrapped.called_without_tracing  # at every step: no look-up

    def called_with_tracing(self, key: Any, python_function: Any, omit_warning: bool) -> None:
        self.__wrapped__.called_with_tracing(key, python_function, omit_warning)
        frame = sys._getframe(1)
        while isinstance(frame.f_locals.get("self"), _Manager) and frame.f_back is not None:
            frame = frame.f_back  # a wrapper around this one
        self._note(key, python_function, frame.f_locals.get("self"))


class _Counter(_Passing):
    def get_cell(self) -> Any:
        self._note()
        return self.__wrapped__.get_cell()


def tracing_hooks(
    begins: Callable[[], None], traced: Callable[[Any, Any, Any], None]
) -> list[tuple[Any, str, Any]]:
    """Returns the objects, attributes and wrappers by which functions are called at each tracing.

    The manager hears of each tracing from a frame with the `Function`; each asks for the counter.
    `begins` is called before a tracing, `traced` after it with a key of the function, the Python
    function and the `Function`. If a name is missing, functions that are traced again are unknown.
    """
    hooks: dict[str, tuple[str, type[_Passing], Callable[..., None]]] = {
        "polymorphic_function": ("_frequent_tracing_detector_manager", _Manager, traced),
        "tracing_compilation": ("_graph_building_time_counter", _Counter, begins),
    }
    found = []
    for module_name, (name, wrapper, note) in hooks.items():
        module = import_module(f"tensorflow.python.eager.polymorphic_function.{module_name}")
        found.append((module, name, wrapper(getattr(module, name), note)))
    return found


def changes(function: Any) -> list[Change]:
    """Returns what differs between the last two tracings of a `Function`."""
    traced = function._function_cache.values()[-2:]
    if len(traced) < 2:
        return []
    before, after = (trace.function_type.parameters for trace in traced)
    found: list[Change] = []
    for name, parameter in after.items():
        old, new = before[name].type_constraint, parameter.type_constraint
        if old == new:
            continue
        if _LITERAL in (type(old).__name__, type(new).__name__):
            found.append(("Python value", name))
        elif hasattr(old, "shape") and hasattr(new, "shape"):
            found.append(("shape" if old.shape != new.shape else "dtype", name))
    return found
