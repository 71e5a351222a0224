"""Floating-point operations of one operation by its type and shapes.

A multiplication and an addition are two. Products with the zeros of a padding count, as they do in
published figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

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


# Each element of the convolution's result (or of its gradient) is a sum over the filter's inputs.
def _convolution(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    return 2 * prod(outputs[0]) * prod(inputs[1][:-1])


def _input_gradient(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    return 2 * prod(inputs[2]) * prod(inputs[1][:-1])


def _filter_gradient(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    return 2 * prod(inputs[2]) * prod(outputs[0][:-1])


# A depthwise filter is height × width × channels × multiplier; each result is of one channel.
def _depthwise(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    return 2 * prod(outputs[0]) * prod(inputs[1][:2])


def _depthwise_input_gradient(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    return 2 * prod(inputs[2]) * prod(inputs[1][:2])


def _depthwise_filter_gradient(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    return 2 * prod(inputs[2]) * prod(outputs[0][:2])


_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _recurrent(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    mode = attribute("rnn_mode")
    gates = _GATES[mode.decode() if isinstance(mode, bytes) else mode]
    (*steps, features), (*states, units) = inputs[0], inputs[1]
    if states[0 if attribute("time_major") else 1] != 1:
        raise UnknownShapeError  # Keras makes an operation for each layer and direction
    return 2 * prod(steps) * gates * units * (features + units)


def _recurrent_gradient(inputs: _Tensors, outputs: _Tensors, attribute: Attribute) -> int:
    return 2 * _recurrent(inputs, outputs, attribute)


FORMULAS: dict[str, Formula] = {
    "MatMul": _product("transpose_a"),
    "BatchMatMul": _product("adj_x"),
    "BatchMatMulV2": _product("adj_x"),
    "BatchMatMulV3": _product("adj_x"),
    "Einsum": _einsum,
    "XlaEinsum": _einsum,
    "Conv": _convolution,
    "Conv2D": _convolution,
    "Conv2DBackpropInput": _input_gradient,
    "Conv2DBackpropFilter": _filter_gradient,
    "Conv3D": _convolution,
    "Conv3DBackpropInputV2": _input_gradient,
    "Conv3DBackpropFilterV2": _filter_gradient,
    "DepthwiseConv2dNative": _depthwise,
    "DepthwiseConv2dNativeBackpropInput": _depthwise_input_gradient,
    "DepthwiseConv2dNativeBackpropFilter": _depthwise_filter_gradient,
    "CudnnRNNV3": _recurrent,
    "CudnnRNNBackpropV3": _recurrent_gradient,
}
"""By the type of an operation. All other types are not counted."""


def flops_of(type_: str, inputs: Shapes, outputs: Shapes, attribute: Attribute) -> int:
    """Returns the operations of one operation whose type is in `FORMULAS`.

    Raises:
        UnknownShapeError: If a needed shape is unknown.
    """
    return FORMULAS[type_](_Tensors(inputs), _Tensors(outputs), attribute)
