"""FLOPs of a step: counts its operations in its graph, in functions that it calls, and in loops.

Shapes are those of the trace. Where the size of the batch was open there, they are inferred again
from the size of the run's batches. Nothing is traced again or run. A multiplication and an addition
are two operations. Products with the zeros of a padding count, as they do in published figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from keras_gpukit.frameworks.tf_functions import BRANCHES, CALLS, LOOPS, function_graph
from keras_gpukit.profiling.graph_shapes import (
    Open,
    called,
    inferred,
    shape_of,
    trips_of,
    with_batch,
)
from keras_gpukit.records.run import StepFlops

Shape = tuple[int, ...]
Shapes = Sequence[Shape | None]
Attribute = Callable[[str], Any]
"""Returns the value of an operation's attribute."""


class UnknownShapeError(Exception):
    """The shape of a tensor is known only while the step runs."""


class _Tensors:
    """Shapes of an operation's inputs or outputs."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes

    def __getitem__(self, index: int) -> Shape:
        shape = self._shapes[index]
        if shape is None:
            raise UnknownShapeError
        return shape


Formula = Callable[[_Tensors, _Tensors, Attribute], int]


def _product(transposed: str) -> Formula:
    def flops(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
        return 2 * prod(outputs[0]) * inputs[0][-2 if attribute(transposed) else -1]

    return flops


def _einsum(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    equation = attribute("equation")
    equation = equation.decode() if isinstance(equation, bytes) else equation
    taken, _, kept = equation.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for labels, shape in zip(taken.split(","), map(inputs.__getitem__, range(2)), strict=False):
        sizes |= zip(labels.replace(".", ""), _labelled(labels, shape), strict=True)
    summed = prod(size for label, size in sizes.items() if label not in kept)
    is_product = "," in taken and set(sizes) - set(kept)
    return 2 * prod(outputs[0]) * summed if is_product else 0


def _labelled(labels: str, shape: Shape) -> Shape:
    """Returns the sizes that have a label, without those that an ellipsis stands for."""
    before, dots, after = labels.partition("...")
    return shape if not dots else shape[: len(before)] + shape[len(shape) - len(after) :]


Parts = Callable[[_Tensors, _Tensors], tuple[Shape, Shape]]


def _sums(parts: Parts) -> Formula:
    """Each element of the first part is a sum over the second; given inputs and outputs."""

    def flops(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
        elements, summed = parts(inputs, outputs)
        return 2 * prod(elements) * prod(summed)

    return flops


# A convolution's result, or its gradient, sums over the filter's inputs. A depthwise filter is
# height × width × channels × multiplier; each result is of one channel.
_CONVOLUTION = _sums(lambda given, made: (made[0], given[1][:-1]))
_INPUT_GRADIENT = _sums(lambda given, made: (given[2], given[1][:-1]))
_FILTER_GRADIENT = _sums(lambda given, made: (given[2], made[0][:-1]))
_DEPTHWISE = _sums(lambda given, made: (made[0], given[1][:2]))
_DEPTHWISE_INPUT_GRADIENT = _sums(lambda given, made: (given[2], given[1][:2]))
_DEPTHWISE_FILTER_GRADIENT = _sums(lambda given, made: (given[2], made[0][:2]))
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _recurrent(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    mode = attribute("rnn_mode")
    gates = _GATES[mode.decode() if isinstance(mode, bytes) else mode]
    (*steps, features), (*states, units) = inputs[0], inputs[1]
    if states[0 if attribute("time_major") else 1] != 1:
        raise UnknownShapeError  # Keras makes an operation for each layer and direction
    return 2 * prod(steps) * gates * units * (features + units)


FORMULAS: dict[str, Formula] = {
    "MatMul": _product("transpose_a"),
    "BatchMatMul": _product("adj_x"),
    "BatchMatMulV2": _product("adj_x"),
    "BatchMatMulV3": _product("adj_x"),
    "Einsum": _einsum,
    "XlaEinsum": _einsum,
    "Conv": _CONVOLUTION,
    "Conv2D": _CONVOLUTION,
    "Conv2DBackpropInput": _INPUT_GRADIENT,
    "Conv2DBackpropFilter": _FILTER_GRADIENT,
    "Conv3D": _CONVOLUTION,
    "Conv3DBackpropInputV2": _INPUT_GRADIENT,
    "Conv3DBackpropFilterV2": _FILTER_GRADIENT,
    "DepthwiseConv2dNative": _DEPTHWISE,
    "DepthwiseConv2dNativeBackpropInput": _DEPTHWISE_INPUT_GRADIENT,
    "DepthwiseConv2dNativeBackpropFilter": _DEPTHWISE_FILTER_GRADIENT,
    "CudnnRNNV3": _recurrent,
    "CudnnRNNBackpropV3": lambda *step: 2 * _recurrent(*step),
}
"""By the type of an operation. All other types are not counted."""


def flops_of(type_: str, inputs: Shapes, outputs: Shapes, attribute: Attribute) -> int:
    """Returns the operations of one whose type is in `FORMULAS`; raises `UnknownShapeError`."""
    return FORMULAS[type_](_Tensors(inputs), _Tensors(outputs), attribute)


# They pass values on, describe them, or make none.
_MOVE_NOTHING = frozenset(
    {"Placeholder", "PlaceholderWithDefault", "ReadVariableOp", "VarHandleOp", "NoOp", "Const"}
    | {"Identity", "IdentityN", "StopGradient", "PreventGradient", "EnsureShape"}
    | {"Reshape", "ExpandDims", "Squeeze", "Shape", "ShapeN", "Size", "Rank"}
    | {"BroadcastArgs", "BroadcastGradientArgs", "TensorListReserve", "EmptyTensorList"}
)
# They read as much of their first input as they write.
_READ_A_PART = frozenset({"GatherV2", "ResourceGather", "Slice", "StridedSlice"})
# They also read and write a variable, which is as large as what they add to it.
_UPDATE = frozenset({"AssignAddVariableOp", "AssignSubVariableOp"})
_HANDLES = ("resource", "variant", "string")


@dataclass
class _Count:
    by_dtype: Counter[str] = field(default_factory=Counter)
    moved_bytes: int = 0
    uncounted: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)

    def add(self, other: _Count, times: int = 1) -> None:
        for dtype, flops in other.by_dtype.items():
            self.by_dtype[dtype] += times * flops
        self.moved_bytes += times * other.moved_bytes
        self.uncounted |= other.uncounted
        self.unknown += other.unknown


def count_step(graph: Any, batch_size: int | None) -> StepFlops:
    """Returns the operations of a traced step."""
    shapes = [with_batch(shape_of(tensor), batch_size) for tensor in graph.inputs]
    count = _count(graph, shapes, batch_size)
    unknown = list(dict.fromkeys(count.unknown))
    more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    because = f"known only while it runs: {unknown[0]}{more}" if unknown else None
    types = tuple(sorted(count.uncounted))
    return StepFlops(dict(count.by_dtype), count.moved_bytes, types, because)


def _count(graph: Any, shapes: Sequence[Open], batch_size: int | None) -> _Count:
    """Counts in a graph whose inputs have these shapes."""
    count = _Count()
    for operation in _that_run(graph, inferred(graph, shapes, batch_size)):
        type_ = operation.type
        if type_ in _MOVE_NOTHING:
            continue
        taken = [shape_of(tensor) for tensor in operation.inputs]
        if type_ in CALLS:
            count.add(_count(called(graph, operation, "f"), taken, batch_size))
        elif type_ in LOOPS:
            body = _count(called(graph, operation, "body"), taken, batch_size)
            trips = trips_of(operation, graph)
            if trips is None and (body.by_dtype or body.unknown):
                count.unknown.append(f"how often the loop {operation.name} runs")
            count.add(body, 1 if trips is None else trips)
        elif type_ in BRANCHES:
            branches = [
                _count(function, taken[1:], batch_size) for function in _branches(graph, operation)
            ]
            if any(branch.by_dtype != branches[0].by_dtype for branch in branches):
                count.unknown.append(f"which branch of {operation.name} runs")
            count.add(branches[0])
        else:
            _add(count, operation, taken)
    return count


def _that_run(graph: Any, found: Any) -> Iterator[Any]:
    """Yields the operations of a graph that its results or its side effects need."""
    left = [found.get_operation_by_name(output.op.name) for output in graph.outputs]
    left += [found.get_operation_by_name(output.name) for output in graph.control_outputs]
    seen = set()
    while left:
        operation = left.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            left += [tensor.op for tensor in operation.inputs]
            left += operation.control_inputs
            yield operation


def _branches(graph: Any, operation: Any) -> list[Any]:
    if "Case" in operation.type:
        return [function_graph(graph, branch.name) for branch in operation.get_attr("branches")]
    return [called(graph, operation, name) for name in ("then_branch", "else_branch")]


def _add(count: _Count, operation: Any, taken: Sequence[Open]) -> None:
    type_, inputs = operation.type, _known(taken)
    outputs = _known([shape_of(tensor) for tensor in operation.outputs])
    if type_ in FORMULAS:
        dtype = operation.outputs[0].dtype.name
        try:
            flops = flops_of(type_, inputs, outputs, operation.get_attr)
            count.by_dtype[dtype] += flops
        except UnknownShapeError:
            count.unknown.append(f"a shape of {operation.name}")
    else:
        count.uncounted.add(type_)
    read, written = _bytes(operation.inputs, inputs), _bytes(operation.outputs, outputs)
    if type_ in _READ_A_PART:
        read = written
    elif type_ in _UPDATE:
        written = 2 * read
    count.moved_bytes += read + written


def _known(shapes: Sequence[Open]) -> list[Shape | None]:
    return [
        None if shape is None or None in shape else tuple(size or 0 for size in shape)
        for shape in shapes
    ]


def _bytes(tensors: Sequence[Any], shapes: Sequence[Shape | None]) -> int:
    """Returns the size of tensors, without handles and tensors of unknown size."""
    return sum(
        prod(shape) * tensor.dtype.size
        for tensor, shape in zip(tensors, shapes, strict=True)
        if shape is not None and tensor.dtype.name not in _HANDLES
    )
