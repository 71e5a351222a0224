"""How TensorFlow's kernels use memory: which share a buffer, and what they need while they work.

The CPU's formulas are those of `conv_grad_filter_ops.cc`, `conv_grad_input_ops.h` and
`depthwise_conv_grad_op.cc` in TensorFlow, which set up convolutions for a cache of 30 MiB whatever
the machine has. They hold without oneDNN.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

ALIASES = frozenset(
    {
        *("Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient"),
        *("PreventGradient", "Snapshot", "CheckNumerics", "Bitcast", "EnsureShape"),
    }
)
"""The output is the input's buffer."""
NO_BUFFER = frozenset({"Placeholder", "_Arg", "Const", "VarHandleOp", "ReadVariableOp", "NoOp"})
"""What they give is held anyway: arguments, constants and variables."""
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
"""The output takes the buffer of an input of the same size that nothing else needs any more."""
CACHE_BYTES = 30 * 2**20
LEAST_PER_THREAD_BYTES = 256 * 2**10
CUDNN_LIMIT_BYTES = 4 * 2**30
"""What TensorFlow lets cuDNN take, unless TF_CUDNN_WORKSPACE_LIMIT_IN_MB says otherwise."""

Shape = Sequence[int]


def cpu_workspace_bytes(
    operation: str, output: Shape, inputs: Sequence[Shape | None], threads: int
) -> int:
    """What an operation takes on a CPU while it runs, in addition to its outputs.

    Args:
        operation: Its type.
        output: Shape of its first output.
        inputs: Shapes; None for one that is not known.
        threads: Of TensorFlow's pool within operations.
    """
    if len(inputs) < 3:
        return 0
    if operation == "Conv2DBackpropFilter":
        gradient = inputs[2]
        return _columns_bytes(output, gradient, whole_batch=True) if gradient else 0
    if operation == "Conv2DBackpropInput":
        filters, gradient = inputs[1], inputs[2]
        if not filters or not gradient:
            return 0
        per_thread = _work_unit(filters, gradient) * 4 // threads
        together = per_thread < LEAST_PER_THREAD_BYTES and gradient[0] > 1
        return _columns_bytes(filters, gradient, whole_batch=together)
    if operation == "DepthwiseConv2dNativeBackpropFilter":
        gradient, (height, width, *_) = inputs[2], output
        return 4 * gradient[0] * height * width * gradient[3] if gradient else 0
    return 0


def gpu_workspace_bytes(operation: str, output: Shape, inputs: Sequence[Shape | None]) -> int:
    """The most that a convolution is expected to take on a GPU; unverified there.

    As much as its tensors, which copies in another layout take, and within cuDNN's own limit.

    Args:
        operation: Its type.
        output: Shape of its first output.
        inputs: Shapes; None for one that is not known.
    """
    if "Conv2D" not in operation and "Conv3D" not in operation:
        return 0
    return min(4 * sum(prod(each) for each in (output, *inputs) if each), CUDNN_LIMIT_BYTES)


def _work_unit(filters: Shape, gradient: Shape) -> int:
    """Numbers in the three matrices of one image's product."""
    image, patch, depth = gradient[1] * gradient[2], prod(filters[:3]), filters[3]
    return image * patch + image * depth + patch * depth


def _columns_bytes(filters: Shape, gradient: Shape, *, whole_batch: bool) -> int:
    """The buffer of image patches, for one image or for as many as the cache is taken to hold."""
    unit = _work_unit(filters, gradient)
    images = -(-(CACHE_BYTES // 4) // unit) if whole_batch else 1
    return 4 * images * gradient[1] * gradient[2] * prod(filters[:3])
