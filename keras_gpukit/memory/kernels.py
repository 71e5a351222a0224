"""Memory use of TensorFlow's kernels: shared buffers, and workspace while they run.

The formulas for CPUs are those of `conv_grad_filter_ops.cc`, `conv_grad_input_ops.h` and
`depthwise_conv_grad_op.cc` in TensorFlow. These files assume a processor cache of 30 MiB on every
machine. The formulas are valid only without oneDNN.
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
CACHE_BYTES = 30 * 2**20
LEAST_PER_THREAD_BYTES = 256 * 2**10
CUDNN_LIMIT_BYTES = 4 * 2**30
"""TensorFlow's default limit for the workspace of cuDNN. The environment variable
TF_CUDNN_WORKSPACE_LIMIT_IN_MB overrides it."""

Shape = Sequence[int]


def cpu_workspace_bytes(
    operation: str, output: Shape, inputs: Sequence[Shape | None], threads: int
) -> int:
    """Returns the bytes that an operation takes on a CPU while it runs, without its outputs."""
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
    """Returns the upper bound of a convolution's workspace on a GPU, in bytes; unverified there.

    The bound is the total size of the inputs and the first output at 4 bytes per element, because
    copies in another layout take that much. It is capped at the workspace limit of cuDNN.
    """
    if "Conv2D" not in operation and "Conv3D" not in operation:
        return 0
    return min(4 * sum(prod(each) for each in (output, *inputs) if each), CUDNN_LIMIT_BYTES)


def _work_unit(filters: Shape, gradient: Shape) -> int:
    """Returns the number of elements in the three matrices of the matrix product for one image."""
    image, patch, depth = gradient[1] * gradient[2], prod(filters[:3]), filters[3]
    return image * patch + image * depth + patch * depth


def _columns_bytes(filters: Shape, gradient: Shape, *, whole_batch: bool) -> int:
    """Returns the size of the buffer for image patches, in bytes.

    The buffer has room for one image, or with `whole_batch` for the number of images whose matrices
    fill the assumed processor cache.
    """
    unit = _work_unit(filters, gradient)
    images = -(-(CACHE_BYTES // 4) // unit) if whole_batch else 1
    return 4 * images * gradient[1] * gradient[2] * prod(filters[:3])
