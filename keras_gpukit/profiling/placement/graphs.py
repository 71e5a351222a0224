"""Reads the operations of a step from its graphs, which are TensorFlow's protos."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from keras_gpukit.frameworks.tf_functions import BRANCHES, CALLS, LOOPS
from keras_gpukit.profiling.placement.copies import is_copy
from keras_gpukit.profiling.placement.operation_names import (
    dtype_name,
    is_own,
    operation_name,
    short_device,
)
from keras_gpukit.records.placement import Operation, OperationKind, StepOperations

# Operation types that compute nothing: they pass a value on, control the order, or hold a constant.
# They are not counted.
BOOKKEEPING = frozenset(
    {"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "_XlaRun", "_XlaMerge"}
    | {"_Send", "_HostSend", "_Recv", "_HostRecv"}
    | {"NoOp", "Const", "_HostConst", "Identity", "IdentityN", "ControlTrigger"}
    | {"Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond"}
)
_XLA_CALLS = frozenset({"XlaLaunch", "XlaLaunchV2", "_XlaCompile"})
_MUST_COMPILE = "_XlaMustCompile"
_COLOCATED = "loc:@"
STEP_CALL = "StatefulPartitionedCall"
_CONTROL_FLOW = LOOPS | BRANCHES

Library = Mapping[str, Any]
"""Functions that nodes may call, by name."""
Requests = Mapping[str, tuple[str, str]]
"""By the name of an operation, the requested device, such as "GPU:0", and the name of another
operation whose device was requested; both may be empty."""


class StepGraphs(NamedTuple):
    """The graphs of a step as traced, as optimized, and as split between devices."""

    pre_optimization_graph: Any
    post_optimization_graph: Any
    partition_graphs: tuple[Any, ...]


def find_step(graphs: list[Any]) -> StepGraphs | None:
    """Returns the graphs of the training step, from those of all collected functions.

    The step is the largest function that both reads and assigns variables. Other functions are
    single operations, which the runtime treats as functions, and initializers of new variables.

    The runtime has one collection for all threads, and whichever operation ends next, in whatever
    thread, takes out all that was collected so far. So the graphs of the step may be spread over
    several of the collected `FunctionGraphs` (seen on TensorFlow 2.21). The part that says where
    operations ran is the one with the most that were traced.
    """
    steps = [index for index, one in enumerate(graphs) if _reads_and_assigns(one)]
    if not steps:
        return None
    first = max(steps, key=lambda index: int(graphs[index].ByteSize()))
    later = graphs[first:]
    traced = later[0].pre_optimization_graph
    optimized = max((one.post_optimization_graph for one in later), key=lambda one: one.ByteSize())
    sizes = [sum(part.ByteSize() for part in one.partition_graphs) for one in later]
    placed = later[0]
    if sizes[0] < max(sizes):  # otherwise names of thousands of operations need not be read twice
        names = {name for name, _, _ in _traced(traced.node, _library(traced))}
        placed = max(later, key=lambda one: _named(one.partition_graphs, names))
    return StepGraphs(traced, optimized, tuple(placed.partition_graphs))


def _named(partitions: Any, names: set[str]) -> int:
    """Returns the number of a function's operations that have one of the names."""
    nodes = (node for partition in partitions for node in partition.node)
    return sum(node.op not in BOOKKEEPING and operation_name(node.name) in names for node in nodes)


def call_compiled(trace: Any, device: str) -> StepGraphs:
    """Returns the graph of a call of a trace that XLA compiles, on a device.

    TensorFlow makes no graph of such a call if Python calls the trace itself, as Keras does from
    3.16 on with one step per execution. All its operations are in one program for the device.
    """
    import tensorflow as tf

    graph = tf.compat.v1.GraphDef()
    graph.library.CopyFrom(trace.graph.as_graph_def().library)
    graph.library.function.add().CopyFrom(trace.function_def)
    call = graph.node.add(name=STEP_CALL, op=STEP_CALL, device=f"/device:{device}")
    call.attr["f"].func.name = trace.function_def.signature.name
    call.attr[_MUST_COMPILE].b = True
    return StepGraphs(graph, graph, (graph,))


def read_step(graphs: StepGraphs) -> StepOperations:
    """Returns the operations in a step's graphs after placement and optimization."""
    traced = graphs.pre_optimization_graph
    functions = _library(traced)
    requests = dict(_requests(traced.node, functions))
    operations: list[Operation] = []
    between: Counter[str] = Counter()
    for partition in graphs.partition_graphs:
        between.update(_path(node) for node in partition.node if is_copy(node))
        library = functions | _library(partition)
        for node in partition.node:
            operations += _operations(node, library, requests)
    return StepOperations(tuple(operations), dict(sorted(between.items())))


def _path(send: Any) -> str:
    ends = (short_device(send.attr[key].s.decode()) for key in ("send_device", "recv_device"))
    return " to ".join(end or "unknown" for end in ends)


def _operations(
    node: Any,
    library: Library,
    requests: Requests,
    prefix: str = "",
    caller: Operation | None = None,
) -> Iterator[Operation]:
    """Yields the operation of a node; if it calls functions, the operations inside them."""
    if node.op in BOOKKEEPING or is_own(f"{prefix}{node.name}"):
        return
    operation = _operation(node, requests, prefix, caller)
    called = _called(node, library)
    if not called:
        yield operation
    for function in called:
        for inner in function.node_def:
            yield from _operations(inner, library, requests, _inside(node, prefix), operation)


def _operation(node: Any, requests: Requests, prefix: str, caller: Operation | None) -> Operation:
    name = operation_name(prefix + node.name)
    asked, colocated = requests.get(name, ("", ""))
    device, ignored = short_device(node.device), ""
    must_compile = _MUST_COMPILE in node.attr and bool(node.attr[_MUST_COMPILE].b)
    compiled = must_compile or node.op in _XLA_CALLS
    if caller and caller.kind.compiled:  # one kernel: its parts run on the device of the call
        device, asked, ignored, compiled = caller.device, caller.kind.requested, asked, True
    elif caller and ":" not in device:
        device = caller.device
    kind = OperationKind(node.op, tuple(_types(node)), asked, compiled, colocated, ignored)
    part = (caller.compiled_in if caller else "") or (name if compiled else "")
    return Operation(kind, name, device, part)


def _types(node: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, value in node.attr.items():
        numbers = [value.type] if value.type else list(value.list.type)
        if numbers and not name.startswith("_"):
            yield name, tuple(dtype_name(number) for number in numbers)


def _requests(nodes: Any, library: Library) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yields name and request of each operation for which a device was requested."""
    for name, node, prefix in _traced(nodes, library):
        # A name such as "/job:worker" asks for no device.
        request = node.device.partition("device:")[2], _colocated(node, prefix, name)
        if any(request):
            yield name, request


def _traced(nodes: Any, library: Library, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yields name, node and name prefix of each operation, those in called functions too."""
    for node in nodes:
        yield operation_name(prefix + node.name), node, prefix
        for function in _called(node, library):
            yield from _traced(function.node_def, library, _inside(node, prefix))


def _inside(node: Any, prefix: str) -> str:
    """Returns the name prefix for the nodes in the functions that a node calls."""
    # The node names in a loop's body include the surrounding scopes; those in a function do not.
    return "" if node.op in _CONTROL_FLOW else f"{prefix}{node.name}/"


def _colocated(node: Any, prefix: str, name: str) -> str:
    """Returns the operation with which a node is colocated; empty if only with itself."""
    groups = node.attr["_class"].list.s if "_class" in node.attr else ()
    others = (operation_name(prefix + group.decode().removeprefix(_COLOCATED)) for group in groups)
    return next((other for other in others if other != name), "")


def _called(node: Any, library: Library) -> list[Any]:
    """Returns the functions that a node calls; they cannot be recursive in TensorFlow."""
    if node.op not in CALLS | _XLA_CALLS | _CONTROL_FLOW:
        return []
    values = node.attr.values()
    names = [function.name for value in values for function in (value.func, *value.list.func)]
    return [library[name] for name in names if name in library]


def _library(graph: Any) -> dict[str, Any]:
    return {function.signature.name: function for function in graph.library.function}


def _reads_and_assigns(graphs: Any) -> bool:
    graph = graphs.pre_optimization_graph
    types = {node.op for node in graph.node}
    types.update(node.op for function in graph.library.function for node in function.node_def)
    return "ReadVariableOp" in types and any(type_.startswith("Assign") for type_ in types)
