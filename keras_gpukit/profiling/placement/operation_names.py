"""Names that the user knows, such as "dense/MatMul" and "GPU:0"; and the kernels of operations.

The kernels are those that TensorFlow has registered for a GPU, or for XLA.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from keras_gpukit.frameworks.tf_functions import op_def, registered_kernels
from keras_gpukit.records.placement import OWN_SCOPE, Kernel, OperationKernels

# Prefix of the names in the body of a loop or branch after lowering.
_LOWERED = re.compile(r"^.*/(?:body|cond|then|else)/_\d+/")
# Keras' own loop over the steps of one execution, and the call of the step.
_STEP = re.compile(r"^(?:(?:while|cond)(?:_\d+)?/)*StatefulPartitionedCall(?:_\d+)?/")
# Part of a name that inlining any further function inserts.
_CALL = re.compile(r"(?:Stateful)?PartitionedCall(?:_\d+)?/")
# A loop within the step. Keras' own loop is around the step, so it does not match.
_LOOP = re.compile(r"PartitionedCall(?:_\d+)?/.*while(?:_\d+)?/body/_\d+/")


def operation_name(name: str) -> str:
    """Returns a graph node's name without the functions it was inlined from."""
    return _CALL.sub("", _STEP.sub("", _LOWERED.sub("", name)))


def is_own(name: str) -> bool:
    """Whether this package added a node to the step, such as its clocks around collectives."""
    return any(part.startswith(OWN_SCOPE) for part in name.split("/"))


def is_in_loop(name: str) -> bool:
    """Whether a node is in a loop of the model, so that a step may run it several times."""
    return bool(_LOOP.search(name))


def short_device(device: str) -> str:
    """Returns "GPU:0" for "/job:localhost/replica:0/task:0/device:GPU:0"."""
    return device.rpartition("device:")[2]


@cache
def dtype_name(number: int) -> str:
    """Returns the name of a dtype, such as "float32", given its enum number (DT_FLOAT)."""
    import tensorflow as tf

    return str(tf.dtypes.as_dtype(number).name)


@cache
def dtype_bytes(number: int) -> int | None:
    """Returns the bytes per element of a dtype; None if elements differ in size, as for strings."""
    import tensorflow as tf

    dtype = tf.dtypes.as_dtype(number)
    return None if dtype in (tf.string, tf.resource, tf.variant) else int(dtype.size)


@cache
def operation_kernels(operation_type: str) -> OperationKernels | None:
    """Returns the arguments and GPU kernels of an operation type; None if the type is unknown."""
    definition = op_def(operation_type)
    if definition is None:
        return None
    registered = [
        kernel
        for kernel in registered_kernels(operation_type)
        # A kernel with a label is used only if the label is requested. DEFAULT stands for any
        # device that has no kernel of its own.
        if kernel.device_type in ("GPU", "DEFAULT") and not kernel.label
    ]
    registered.sort(key=lambda kernel: (kernel.device_type != "GPU", -kernel.priority))
    return OperationKernels(
        inputs=_without_resources(definition.input_arg),
        outputs=_without_resources(definition.output_arg),
        uses_resource=any(map(_is_resource, definition.input_arg)),
        gpu=tuple(
            Kernel(
                allowed={
                    constraint.name: frozenset(map(dtype_name, constraint.allowed_values.list.type))
                    for constraint in kernel.constraint
                },
                host_arguments=frozenset(kernel.host_memory_arg),
            )
            for kernel in registered
        ),
    )


def _without_resources(arguments: Iterable[Any]) -> tuple[str, ...]:
    return tuple(argument.name for argument in arguments if not _is_resource(argument))


def _is_resource(argument: Any) -> bool:
    # If an attribute sets the dtype, type is 0.
    return bool(argument.type) and dtype_name(argument.type) == "resource"


def xla_refuses(operation_type: str, device: str) -> bool | None:
    """Whether XLA has no kernel for an operation; None before XLA has registered its kernels."""
    wanted = f"XLA_{device.partition(':')[0]}_JIT"

    def has_kernel(type_: str) -> bool:
        return any(kernel.device_type == wanted for kernel in registered_kernels(type_))

    if not has_kernel("MatMul"):  # XLA registers its kernels when it first compiles
        return None
    return not has_kernel(operation_type)
