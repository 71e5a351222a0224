"""Traces a training step, without running it, as a graph of operations with known tensor sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from keras_gpukit.frameworks.tf_functions import (
    BRANCHES,
    CALLS,
    LOOPS,
    op_def,
    optimize_graph,
)
from keras_gpukit.memory.kernels import RNN_FORWARD, RNN_RESERVE, reserve_shape

Source = tuple[str, int]
"""One output of an operation: the operation's name and the output's index. The index is -1 for a
control dependency, where the operation only has to run earlier."""
TRACED_BATCH = 7919
"""Batch size for tracing a step. It is a large prime because other dimensions are unlikely to be
multiples of it."""


@dataclass(frozen=True)
class GraphNode:
    """One operation of a training step.

    Attributes:
        name: Name of the operation in the graph.
        operation: Type of the operation, such as "MatMul".
        inputs: Outputs that the operation reads, and its control dependencies.
        shapes: Shape of each output; None if unknown.
        item_bytes: Bytes per element of each output; 0 for strings, resource handles and variants.
    """

    name: str
    operation: str
    inputs: tuple[Source, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    item_bytes: tuple[int, ...]


@dataclass(frozen=True)
class StepGraph:
    """The operations of one training step, traced with `TRACED_BATCH` examples or a fixed batch.

    Attributes:
        nodes: The operations in the order of the graph: as created, unless it was optimized.
        results: Outputs that the step returns.
        scales: Whether the graph is valid for other batch sizes too.
        loops: Types of the operations that contain loops, branches or functions. The memory used
            inside them is unknown.
    """

    nodes: tuple[GraphNode, ...]
    results: frozenset[Source]
    scales: bool = True
    loops: frozenset[str] = frozenset()

    @cached_property
    def by_name(self) -> Mapping[str, GraphNode]:
        """The operations, by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def users(self) -> Mapping[str, Sequence[str]]:
        """Names of the operations that depend on an operation, by its name."""
        users: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in {name for name, _ in node.inputs}:
                users[name].append(node.name)
        return users

    @cached_property
    def uses(self) -> Counter[Source]:
        """Number of times that each output is read by operations or returned by the step."""
        uses = Counter(source for node in self.nodes for source in node.inputs if source[1] >= 0)
        uses.update(self.results)
        return uses

    def shape(self, source: Source, batch_size: int) -> tuple[int, ...] | None:
        """Returns the shape of an output for a batch size; None if unknown."""
        node = self.by_name.get(source[0])
        if node is None or not 0 <= source[1] < len(node.shapes):
            return None
        shape = node.shapes[source[1]]
        if shape is None or not self.scales:
            return shape
        return tuple(
            dim if dim % TRACED_BATCH or not dim else dim // TRACED_BATCH * batch_size
            for dim in shape
        )

    def size_bytes(self, source: Source, batch_size: int) -> int:
        """Returns the size of an output in bytes for a batch size; 0 if unknown."""
        shape = self.shape(source, batch_size)
        if shape is None or any(dim < 0 for dim in shape):
            return 0
        return prod(shape) * self.by_name[source[0]].item_bytes[source[1]]


_CALL_FUNCTIONS = LOOPS | BRANCHES | CALLS
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
    results = [tensor.name for tensor in tf.nest.flatten(function.structured_outputs)]
    fetches = [*results, *(operation.name for operation in graph.control_outputs)]
    traced = graph.as_graph_def(add_shapes=True)
    final = optimize_graph(traced, fetches) if optimized else traced
    shapes = {node.name: _shapes(node) for node in traced.node}
    nodes = tuple(_node(node, shapes) for node in final.node)
    loops = (
        frozenset(_LOWERED.get(node.operation, node.operation) for node in nodes) & _CALL_FUNCTIONS
    )
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
    import tensorflow as tf

    sizes = list(_item_bytes(node))
    # If the optimizer fuses several operations, the result has the name of the last one.
    known = (_shapes(node) or shapes.get(node.name) or [])[: len(sizes)]
    known += [None] * (len(sizes) - len(known))
    operation = node.op
    if operation == RNN_FORWARD and known[0] is not None:
        dtype = tf.dtypes.as_dtype(node.attr["T"].type).name
        mode = node.attr["rnn_mode"].s.decode()
        known[RNN_RESERVE] = reserve_shape(mode, dtype, known[0])
    if operation == "Const" and known[0] and any(dim % TRACED_BATCH == 0 for dim in known[0]):
        operation = "Fill"  # a tensor of zeros or ones for a batch, which takes memory
    inputs = tuple(_source(name) for name in node.input)
    return GraphNode(node.name, operation, inputs, tuple(known), tuple(sizes))


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
        for data_type in types:
            dtype = tf.dtypes.as_dtype(data_type)
            yield 0 if dtype in (tf.resource, tf.variant, tf.string) else dtype.size
