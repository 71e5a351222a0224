"""Traces a model's training step for a batch, without running it or allocating its tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keras_gpukit.frameworks.tf_functions import op_def, optimize_graph
from keras_gpukit.memory.kernels import RNN_FORWARD, RNN_RESERVE, reserve_shape
from keras_gpukit.memory.step_graph import TRACED_BATCH, GraphNode, Source, StepGraph

_LOOPS = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "PartitionedCall"}) | {
    "StatefulPartitionedCall"
}
# The graph optimizer replaces a loop by several simpler operations. `LoopCond` identifies it.
_LOWERED = {"LoopCond": "While"}


def trace_step(
    model: Any, spec: Any, *, optimized: bool = True
) -> tuple[StepGraph, tuple[Any, ...]]:
    """Returns the training step as a graph, and the `tf.Variable`s that it uses."""
    import tensorflow as tf

    step = tf.function(model.train_step, autograph=False)
    scales = True
    try:
        function = step.get_concrete_function(tf.nest.map_structure(_with_traced_batch, spec))
    except (ValueError, TypeError, tf.errors.InvalidArgumentError):
        scales = False  # the model accepts one batch size only
        function = step.get_concrete_function(spec)
    graph = function.graph
    results = [each.name for each in tf.nest.flatten(function.structured_outputs)]
    fetches = [*results, *(each.name for each in graph.control_outputs)]
    traced = graph.as_graph_def(add_shapes=True)
    final = optimize_graph(traced, fetches) if optimized else traced
    shapes = {node.name: _shapes(node) for node in traced.node}
    nodes = tuple(_node(node, shapes) for node in final.node)
    loops = frozenset(_LOWERED.get(node.operation, node.operation) for node in nodes) & _LOOPS
    step_graph = StepGraph(nodes, frozenset(map(_source, results)), scales=scales, loops=loops)
    return step_graph, tuple(graph.variables)


def build_by_tracing(model: Any, spec: Any) -> None:
    """Builds a model, its optimizer and its metrics as its first training step would."""
    import tensorflow as tf

    tf.function(model.train_step, autograph=False).get_concrete_function(spec)


def _with_traced_batch(spec: Any) -> Any:
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        return spec
    return tf.TensorSpec((TRACED_BATCH, *spec.shape[1:]), spec.dtype)


def _node(node: Any, shapes: dict[str, list[Any]]) -> GraphNode:
    sizes = list(_item_bytes(node))
    # If the optimizer fuses several operations, the result has the name of the last one.
    known = (_shapes(node) or shapes.get(node.name) or [])[: len(sizes)]
    known += [None] * (len(sizes) - len(known))
    operation = node.op
    if operation == RNN_FORWARD and known[0] is not None:
        known[RNN_RESERVE] = _reserve_shape(node, known[0])
    if operation == "Const" and known[0] and any(each % TRACED_BATCH == 0 for each in known[0]):
        operation = "Fill"  # a tensor of zeros or ones for a batch, which takes memory
    inputs = tuple(_source(each) for each in node.input)
    return GraphNode(node.name, operation, inputs, tuple(known), tuple(sizes))


def _reserve_shape(node: Any, hidden: tuple[int, ...]) -> tuple[int, ...] | None:
    import tensorflow as tf

    dtype = tf.dtypes.as_dtype(node.attr["T"].type).name
    return reserve_shape(node.attr["rnn_mode"].s.decode(), dtype, hidden)


def _source(name: str) -> Source:
    if name.startswith("^"):
        return name[1:], -1
    operation, _, index = name.partition(":")
    return operation, int(index or 0)


def _shapes(node: Any) -> list[tuple[int, ...] | None]:
    if "_output_shapes" not in node.attr:
        return []
    return [
        None if shape.unknown_rank else tuple(dim.size for dim in shape.dim)
        for shape in node.attr["_output_shapes"].list.shape
    ]


def _item_bytes(node: Any) -> Iterator[int]:
    """Yields the bytes per element of each output; 0 for strings, handles and variants."""
    import tensorflow as tf

    definition = op_def(node.op)
    for output in definition.output_arg if definition else ():
        if output.type_list_attr:
            types = list(node.attr[output.type_list_attr].list.type)
        else:
            count = node.attr[output.number_attr].i if output.number_attr else 1
            types = [output.type or node.attr[output.type_attr].type] * count
        for each in types:
            dtype = tf.dtypes.as_dtype(each)
            yield 0 if dtype in (tf.resource, tf.variant, tf.string) else dtype.size
