"""Memory use of TensorFlow's kernels: shared buffers, workspace while they run, and cuDNN's RNNs.

cuDNN's kernel for LSTM and GRU layers, which Keras uses on a GPU, keeps a reserve space from the
forward pass until the backward pass, and both take a workspace. cuDNN does not document their
sizes, and TensorFlow's graph does not know them. The formulas were found by measuring 26 shapes on
an H100 with cuDNN 9.19 and TensorFlow 2.21. The reserve space is right to 0.2 % or better. So is
the workspace to 1 MiB, where the allocator's rounding did not hide it. Other versions of cuDNN and
other GPUs are untested; cuDNN 7 was reported to reserve as much (pytorch/pytorch, issue 2895).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_gpukit.memory.step_graph import GraphNode, StepGraph

ALIASES = frozenset(
    {
        *("Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient"),
        *("PreventGradient", "Snapshot", "CheckNumerics", "Bitcast", "EnsureShape"),
    }
)
"""Operation types whose output shares the buffer of the input."""
NO_BUFFER = frozenset({"Placeholder", "_Arg", "Const", "VarHandleOp", "ReadVariableOp", "NoOp"})
"""Operation types whose output needs no buffer of its own: it is an argument, a constant or a
variable, which is held in any case, or there is no output."""
IN_PLACE = frozenset(
    {
        *("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Sigmoid", "Tanh", "Softplus", "Softsign"),
        *("ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "SigmoidGrad"),
        *("TanhGrad", "SoftplusGrad", "RsqrtGrad", "SqrtGrad", "Softmax", "LogSoftmax"),
        *("Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Pow", "AddN"),
        *("Sqrt", "Rsqrt", "Square", "Neg", "Exp", "Log", "Abs", "SquaredDifference", "Erf"),
        *("BiasAdd", "Select", "SelectV2", "ClipByValue", "DivNoNan", "MulNoNan", "_FusedMul"),
    }
)
"""Operation types that may write the output into the buffer of an input. The input must have the
same size, and no other operation may need it any more."""
CUDNN_LIMIT_BYTES = 4 * 2**30
"""TensorFlow's default limit for the workspace of cuDNN. The environment variable
TF_CUDNN_WORKSPACE_LIMIT_IN_MB overrides it."""
CPU_BYTES = 30 * 2**20
"""A processor's cache, as TensorFlow assumes it to be on every machine (`conv_grad_filter_ops.cc`).
The gradient of a convolution's weights works on as many images as fit into it, without oneDNN."""

Shape = Sequence[int]


def workspace_bytes(
    operation: str, output: Shape, inputs: Sequence[Shape | None], *, on_gpu: bool
) -> int:
    """Returns the most that a convolution takes while it runs, without its outputs, in bytes.

    On a GPU, that is the total size of the inputs and the first output at 4 bytes per element,
    because copies in another layout take that much, up to the workspace limit of cuDNN. On a CPU,
    it is the share of the cache that holds the images' patches.
    """
    if not on_gpu:
        gradient = inputs[2] if operation == "Conv2DBackpropFilter" and len(inputs) > 2 else None
        if not gradient:
            return 0
        image, patch, depth = gradient[1] * gradient[2], prod(output[:3]), output[3]
        return CPU_BYTES * image * patch // (image * patch + image * depth + patch * depth)
    if "Conv2D" not in operation and "Conv3D" not in operation:
        return 0
    return min(4 * sum(prod(shape) for shape in (output, *inputs) if shape), CUDNN_LIMIT_BYTES)


RNN_FORWARD, RNN_BACKWARD = "CudnnRNNV3", "CudnnRNNBackpropV3"
RNN_RESERVE = 3
"""Index of the forward operation's output that is the reserve space."""
_INPUTS, _PARAMETERS, _HIDDEN, _RESERVED = 0, 3, 5, 11
"""Indices of the inputs; the last two belong to the backward operation."""
_FIXED_BYTES = 8 * 2**20


@dataclass(frozen=True)
class _Mode:
    """Sizes for one type of layer.

    Attributes:
        reserved: Reserve space, in sequences of hidden states: batch × time steps × units.
        hidden: Part of the workspace, in sequences of hidden states.
        inputs: Part of the workspace, in sequences of inputs: batch × time steps × features.
        states: Part of the workspace, in hidden states of one time step.
    """

    reserved: int
    hidden: int
    inputs: int
    states: int


_MODES = {"lstm": _Mode(5, 5, 1, 10), "gru": _Mode(6, 4, 2, 5)}


def reserve_shape(mode: str, dtype: str, hidden: tuple[int, ...]) -> tuple[int, ...] | None:
    """Returns the shape of the reserve space, in elements of the dtype; None if unknown."""
    if mode not in _MODES:
        return None
    # TensorFlow casts bfloat16 to float32 for cuDNN.
    elements = 2 if dtype == "bfloat16" else 1
    return (*hidden[:-1], elements * _MODES[mode].reserved * hidden[-1])


def rnn_workspace_bytes(graph: StepGraph, node: GraphNode, batch_size: int) -> int:
    """Returns the workspace of a forward or backward operation in bytes; 0 if unknown."""
    is_forward = node.operation == RNN_FORWARD
    hidden_shape = graph.shape((node.name, 0) if is_forward else node.inputs[_HIDDEN], batch_size)
    reserved = graph.shape(
        (node.name, RNN_RESERVE) if is_forward else node.inputs[_RESERVED], batch_size
    )
    inputs = graph.shape(node.inputs[_INPUTS], batch_size)
    parameters = graph.shape(node.inputs[_PARAMETERS], batch_size)
    if not (hidden_shape and reserved and inputs and parameters):
        return 0
    sequences = reserved[-1] // hidden_shape[-1]
    is_cast = sequences not in {mode.reserved for mode in _MODES.values()}
    sequences //= 2 if is_cast else 1
    mode = next(mode for mode in _MODES.values() if mode.reserved == sequences)
    hidden, states = prod(hidden_shape), prod(hidden_shape) // hidden_shape[1]
    elements = mode.hidden * hidden + mode.inputs * prod(inputs) + prod(parameters)
    elements += mode.states * states
    if is_cast:  # inputs and outputs as float32; in the backward pass the reserve space too
        cast = hidden + prod(inputs)
        elements += cast if is_forward else 2 * cast + sequences * hidden
    return elements * (4 if is_cast else node.item_bytes[0]) + _FIXED_BYTES
