"""Memory use of TensorFlow's kernels: shared buffers, and workspace while they run."""

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
    return min(4 * sum(prod(each) for each in (output, *inputs) if each), CUDNN_LIMIT_BYTES)
