"""Reads the operations of a step from its graphs.

It reads TensorFlow's protos without calling TensorFlow, so tests can use graphs written by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from keras_gpukit.placement.copies import is_copy
from keras_gpukit.placement.names import is_own, operation_name, requested_device, short_device
from keras_gpukit.records.operations import (
    Operation,
    OperationKind,
    StepOperations,
)

# Operation types that compute nothing: they pass a value on, control the order, or hold a constant.
# They are not counted.
BOOKKEEPING = frozenset(
    {"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "_XlaRun", "_XlaMerge"}
    | {"_Send", "_HostSend", "_Recv", "_HostRecv"}
    | {"NoOp", "Const", "_HostConst", "Identity", "IdentityN", "ControlTrigger"}
    | {"Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond"}
)
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_XLA_CALLS = frozenset({"XlaLaunch", "XlaLaunchV2", "_XlaCompile"})
_COLOCATED = "loc:@"
_CONTROL_FLOW = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"})

DtypeName = Callable[[int], str]
Library = Mapping[str, Any]


def find_step(graphs: list[Any]) -> Any | None:
    """Returns the `FunctionGraphs` of the training step, from those of all collected functions.

    The step is the largest function that both reads and assigns variables. Other functions are
    single operations, which the runtime treats as functions, and initializers of new variables.
    """
    steps = [each for each in graphs if _reads_and_assigns(each.pre_optimization_graph)]
    return max(steps, key=lambda each: int(each.ByteSize()), default=None)


def read_step(graphs: Any, dtype_name: DtypeName) -> StepOperations:
    """Returns the operations in a step's graphs after placement and optimization."""
    requested = dict(_requests(graphs.pre_optimization_graph))
    operations: list[Operation] = []
    between: Counter[str] = Counter()
    for partition in graphs.partition_graphs:
        between.update(_path(node) for node in partition.node if is_copy(node))
        walk = _Walk(
            library=_library(graphs.pre_optimization_graph) | _library(partition),
            requested=requested,
            dtype_name=dtype_name,
        )
        for node in partition.node:
            operations += walk.operations(node)
    compiled = any(operation.kind.compiled for operation in operations)
    return StepOperations(
        tuple(operations),
        between.total(),
        "xla" if compiled else "graph",
        dict(sorted(between.items())),
    )


def _path(send: Any) -> str:
    ends = (short_device(send.attr[key].s.decode()) for key in ("send_device", "recv_device"))
    return " to ".join(end or "unknown" for end in ends)


@dataclass(frozen=True)
class _Request:
    """The device that was requested for an operation.

    Attributes:
        device: Requested device, such as "GPU:0"; empty if none was requested.
        colocated: Name of another operation whose device was requested; empty if none was.
    """

    device: str = ""
    colocated: str = ""


@dataclass(frozen=True)
class _Walk:
    """Converts the nodes of one partition graph to operations.

    Attributes:
        library: Functions that the nodes may call, by name.
        requested: Device request of each operation that has one, by the operation's name.
        dtype_name: Returns the name of a dtype, given its enum number.
    """

    library: Library
    requested: Mapping[str, _Request]
    dtype_name: DtypeName

    def operations(
        self, node: Any, prefix: str = "", caller: Operation | None = None
    ) -> Iterator[Operation]:
        """Yields the operation of a node; if it calls functions, the operations inside them."""
        if node.op in BOOKKEEPING or is_own(f"{prefix}{node.name}"):
            return
        operation = self._operation(node, prefix, caller)
        called = _called(node, self.library)
        if not called:
            yield operation
        for function in called:
            for inner in function.node_def:
                yield from self.operations(inner, _inside(node, prefix), operation)

    def _operation(self, node: Any, prefix: str, caller: Operation | None) -> Operation:
        name = operation_name(prefix + node.name)
        request = self.requested.get(name, _Request())
        device, asked, ignored = short_device(node.device), request.device, ""
        compiled = node.op in _XLA_CALLS or _must_compile(node)
        if caller and caller.kind.compiled:  # one kernel: its parts run on the device of the call
            device, asked, ignored, compiled = caller.device, caller.kind.requested, asked, True
        elif caller and ":" not in device:
            device = caller.device
        types = tuple(self._types(node))
        kind = OperationKind(node.op, types, asked, compiled, request.colocated, ignored)
        part = (caller.compiled_in if caller else "") or (name if compiled else "")
        return Operation(kind, name, device, part)

    def _types(self, node: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
        for name, value in node.attr.items():
            numbers = [value.type] if value.type else list(value.list.type)
            if numbers and not name.startswith("_"):
                yield name, tuple(self.dtype_name(number) for number in numbers)


def _requests(graph: Any) -> Iterator[tuple[str, _Request]]:
    """Yields name and request of each operation for which a device was requested."""
    library = _library(graph)

    def walk(nodes: Any, prefix: str) -> Iterator[tuple[str, _Request]]:
        for node in nodes:
            name = operation_name(prefix + node.name)
            request = _Request(requested_device(node.device), _colocated(node, prefix, name))
            if request != _Request():
                yield name, request
            for function in _called(node, library):
                yield from walk(function.node_def, _inside(node, prefix))

    return walk(graph.node, "")


def _inside(node: Any, prefix: str) -> str:
    """Returns the name prefix for the nodes in the functions that a node calls."""
    # The node names in a loop's body include the surrounding scopes; those in a function do not.
    return "" if node.op in _CONTROL_FLOW else f"{prefix}{node.name}/"


def _colocated(node: Any, prefix: str, name: str) -> str:
    """Returns the operation with which a node is colocated; empty if only with itself."""
    groups = node.attr["_class"].list.s if "_class" in node.attr else ()
    others = (operation_name(prefix + each.decode().removeprefix(_COLOCATED)) for each in groups)
    return next((each for each in others if each != name), "")


def _called(node: Any, library: Library) -> list[Any]:
    """Returns the functions that a node calls; they cannot be recursive in TensorFlow."""
    if node.op not in _CALLS | _XLA_CALLS | _CONTROL_FLOW:
        return []
    values = node.attr.values()
    names = [function.name for value in values for function in (value.func, *value.list.func)]
    return [library[name] for name in names if name in library]


def _must_compile(node: Any) -> bool:
    return "_XlaMustCompile" in node.attr and bool(node.attr["_XlaMustCompile"].b)


def _library(graph: Any) -> dict[str, Any]:
    return {function.signature.name: function for function in graph.library.function}


def _reads_and_assigns(graph: Any) -> bool:
    types = {node.op for node in graph.node}
    types.update(node.op for function in graph.library.function for node in function.node_def)
    return "ReadVariableOp" in types and any(each.startswith("Assign") for each in types)
